import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { createSecureContext } from "node:tls";
import { reasonOf, UsageFailure } from "../node/listeners/failure.ts";

export interface KeyPair {
  readonly certPath: string;
  readonly keyPath: string;
  readonly cert: Buffer;
  readonly key: Buffer;
}

/** A path as given, and the name of the flag or variable that gave it. */
export interface NamedPath {
  readonly label: string;
  readonly path: string;
}

function readNamed({ label, path }: NamedPath): Buffer {
  try {
    return readFileSync(path);
  } catch (error) {
    throw new UsageFailure(`${label}: cannot read ${path}: ${reasonOf(error)}`);
  }
}

/** The secret in a file, without surrounding blanks. An empty file is an error, never "no secret". */
export function readSecretFile(file: NamedPath): string {
  const secret = readNamed(file).toString("utf8").trim();
  if (secret === "") throw new UsageFailure(`${file.label}: ${file.path} is empty`);
  if (secret.includes("\0")) throw new UsageFailure(`${file.label}: ${file.path} is not a text file`);
  return secret;
}

/** Reads certificate and key and checks that they belong together. */
export function readKeyPair(cert: NamedPath, key: NamedPath): KeyPair {
  const pair = {
    certPath: resolve(cert.path),
    keyPath: resolve(key.path),
    cert: readNamed(cert),
    key: readNamed(key),
  };
  try {
    createSecureContext({ cert: pair.cert });
  } catch {
    throw new UsageFailure(`${cert.label}: ${cert.path} is not a PEM certificate`);
  }
  try {
    createSecureContext({ key: pair.key });
  } catch {
    throw new UsageFailure(`${key.label}: ${key.path} is not an unencrypted PEM private key`);
  }
  try {
    createSecureContext({ cert: pair.cert, key: pair.key });
  } catch {
    throw new UsageFailure(`${key.label}: ${key.path} is not the key of ${cert.path}`);
  }
  return pair;
}

/** Either both of the pair, or none. */
export function readOptionalKeyPair(
  cert: NamedPath | undefined,
  key: NamedPath | undefined,
  names: { readonly cert: string; readonly key: string },
): KeyPair | undefined {
  if (cert && key) return readKeyPair(cert, key);
  if (cert) throw new UsageFailure(`${cert.label} needs ${names.key} as well`);
  if (key) throw new UsageFailure(`${key.label} needs ${names.cert} as well`);
  return undefined;
}
