@rem The scripts in package.json end with `exec`, so that a signal to npm reaches the server and not a shell. cmd.exe has no
@rem `exec`, but finds this file: npm runs scripts in the folder of package.json.
@%*
