/** A real browser out of the npm packages alone: nothing is downloaded, and no library of the machine is used but libc. */
import { type ChildProcess, execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { mkdir, mkdtemp, readFile, rename, rm, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { type Browser, chromium } from "playwright-core";

const ROOT = fileURLToPath(new URL("../../..", import.meta.url));
const CACHE = join(ROOT, "node_modules/.cache/holdfast");
const START_DEADLINE_MS = 20_000;

/**
 * How long after a page was hidden its timers run once a minute only; in life it is five minutes. Chromium 153 spares
 * pages with an open WebSocket: theirs run once a second.
 */
const THROTTLED_AFTER_S = 2;

const ARGUMENTS = [
  "--headless",
  "--no-sandbox",
  "--disable-gpu",
  "--disable-dev-shm-usage",
  "--remote-debugging-port=0",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--no-proxy-server",
  "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
  `--enable-features=IntensiveWakeUpThrottling:grace_period_seconds/${THROTTLED_AFTER_S}`,
];

export interface TestBrowser extends AsyncDisposable {
  readonly browser: Browser;
}

/**
 * Started by hand, because Playwright would start a browser that no user has: one without throttled timers and without
 * a cache of pages to go back to.
 */
export async function startChromium(): Promise<TestBrowser> {
  const home = await unpackChromium();
  const profile = await mkdtemp(join(tmpdir(), "holdfast-browser-"));
  const child = spawn(join(home, "chromium"), [...ARGUMENTS, `--user-data-dir=${profile}`, "about:blank"], {
    env: { ...process.env, LD_LIBRARY_PATH: join(home, "al2023/lib"), FONTCONFIG_FILE: await fontsOf(home, profile) },
    stdio: ["ignore", "ignore", "pipe"],
  });
  const stop = async () => {
    if (child.exitCode === null && child.signalCode === null) {
      child.kill("SIGKILL");
      await once(child, "exit");
    }
    await rm(profile, { recursive: true, force: true, maxRetries: 5 });
  };
  try {
    const browser = await chromium.connectOverCDP(await addressOf(child), { noDefaults: true });
    return {
      browser,
      async [Symbol.asyncDispose]() {
        await browser.close();
        await stop();
      },
    };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** Where the browser listens for what it is to do, which it says once it is there. */
function addressOf(child: ChildProcess): Promise<string> {
  return new Promise((resolve, reject) => {
    let said = "";
    const fail = (why: string) => reject(new Error(`the browser ${why}: ${said}`));
    const timer = setTimeout(() => fail("did not start in time"), START_DEADLINE_MS);
    child.on("error", reject);
    child.on("exit", (code, signal) => fail(`ended with ${code ?? signal}`));
    child.stderr?.on("data", (text) => {
      said += text;
      const [, address] = /listening on (ws:\S+)/.exec(said) ?? [];
      if (address === undefined) return;
      clearTimeout(timer);
      resolve(address);
    });
  });
}

/**
 * A configuration that names the fonts beside the browser. Its own looks for them in `/tmp/fonts` and at Amazon's places
 * only, and without a font the browser crashes as soon as it draws a letter.
 */
async function fontsOf(home: string, profile: string): Promise<string> {
  const file = join(profile, "fonts.conf");
  const folders = `<dir>${join(home, "fonts")}</dir><cachedir>${join(profile, "fonts-cache")}</cachedir>`;
  await writeFile(file, `<?xml version="1.0"?><fontconfig>${folders}</fontconfig>`);
  return file;
}

/**
 * Unpacks the browser and its libraries once for every version of the package, and whole or not at all. The package
 * itself would take whatever browser it finds in the directory for temporary files, and its libraries only to a function at Amazon.
 */
async function unpackChromium(): Promise<string> {
  const entry = createRequire(import.meta.url).resolve("@sparticuz/chromium");
  const { version } = JSON.parse(await readFile(join(entry, "../../package.json"), "utf8"));
  const home = join(CACHE, `chromium-${version}`);
  if (existsSync(home)) return home;
  await mkdir(CACHE, { recursive: true });
  const half = await mkdtemp(join(CACHE, "unpacking-"));
  try {
    const script = 'await (await import("@sparticuz/chromium")).default.executablePath()';
    await promisify(execFile)(process.execPath, ["--input-type=module", "--eval", script], {
      cwd: ROOT,
      env: { ...process.env, TMPDIR: half, AWS_EXECUTION_ENV: "AWS_Lambda_nodejs24.x" },
    });
    await rename(half, home);
  } catch (error) {
    await rm(half, { recursive: true, force: true });
    // Somebody else was faster.
    if (!existsSync(home)) throw error;
  }
  return home;
}
