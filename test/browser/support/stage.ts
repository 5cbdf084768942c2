/** Everything a story in the browser needs: the service, a web site that uses it, a browser, and somebody who watches. */
import type { BrowserContext, Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, expect } from "vitest";
import type * as client from "../../../src/client/index.ts";
import type { Lock, Locks } from "../../../src/client/index.ts";
import { connectTo } from "../../client/support.ts";
import { startServer, type TestServer } from "../../support/server.ts";
import { startChromium } from "./chromium.ts";
import { type Site, startSite } from "./site.ts";

/** What pages of the site, and only they, have. */
declare global {
  var holdfast: typeof client;
  /** The client of the page. */
  var locks: Locks;
  /** What a story holds on to in the page. */
  var lock: Lock;
  var waiting: Promise<Lock>;
  var told: string[];
}

export interface TabOptions {
  /** A tab as a person has it, that can be hidden and frozen: Playwright keeps those of its own contexts awake. */
  readonly isOrdinary?: true;
}

export interface PageOptions extends TabOptions {
  /** Where the page finds the service; the server itself unless said otherwise. */
  readonly port?: number;
  readonly token?: string;
}

export class Stage {
  readonly problems: string[] = [];
  readonly server: TestServer;
  readonly site: Site;
  /** A client outside of all browsers. */
  readonly observer: Locks;
  readonly #contexts: BrowserContext[] = [];
  readonly #pages: Page[] = [];
  readonly #ordinary: BrowserContext;
  readonly #stack: AsyncDisposableStack;

  private constructor(
    parts: Pick<Stage, "server" | "site" | "observer">,
    ordinary: BrowserContext,
    stack: AsyncDisposableStack,
  ) {
    this.server = parts.server;
    this.site = parts.site;
    this.observer = parts.observer;
    this.#ordinary = ordinary;
    this.#stack = stack;
  }

  static async set(variables: Readonly<Record<string, string>>, token?: string): Promise<Stage> {
    await using stack = new AsyncDisposableStack();
    const { browser } = stack.use(await startChromium());
    const site = stack.use(await startSite());
    const server = stack.use(await startServer({ variables }));
    const observer = stack.use(connectTo(server.httpPort, { label: "observer", ...(token && { token }) }));
    const [ordinary] = browser.contexts();
    if (!ordinary) throw new Error("the browser has no context of its own");
    return new Stage({ server, site, observer }, ordinary, stack.move());
  }

  /** Opens the site's page in a tab of its own, in which `locks` is a client with that label. */
  async open(label: string, { port = this.server.httpPort, token, ...options }: PageOptions = {}): Promise<Page> {
    const page = await this.visit(this.site.url, label, options);
    const url = `http://127.0.0.1:${port}`;
    await page.evaluate(
      ({ url, options }) => {
        globalThis.locks = holdfast.connect(url, options);
      },
      { url, options: { label, ...(token !== undefined && { token }) } },
    );
    return page;
  }

  /** Opens any page in a tab of its own. Its problems are told under that label. */
  async visit(address: string, label: string, { isOrdinary }: TabOptions = {}): Promise<Page> {
    const page = await (isOrdinary ? this.#ordinary : await this.#freshContext()).newPage();
    this.#pages.push(page);
    page.on("pageerror", (error) => this.problems.push(`${label}: ${error}`));
    page.on("console", (line) => {
      if (line.type() === "error" || line.type() === "warning") this.problems.push(`${label}: ${line.text()}`);
    });
    await page.goto(address);
    return page;
  }

  /** The service's own address. */
  get service(): string {
    return `http://127.0.0.1:${this.server.httpPort}`;
  }

  /** How often the site was written to under that fence. */
  writesOf(fence: string): number {
    return this.site.notes.filter((note) => note === fence).length;
  }

  /** Such problems belong to the story. */
  forgive(expected: RegExp): void {
    const others = this.problems.filter((problem) => !expected.test(problem));
    this.problems.splice(0, Number.POSITIVE_INFINITY, ...others);
  }

  /** The story is over: all its tabs are closed. Tells what went wrong in them. */
  async clear(): Promise<string[]> {
    await Promise.all(this.#pages.splice(0).map((page) => page.close()));
    await Promise.all(this.#contexts.splice(0).map((context) => context.close()));
    this.site.notes.length = 0;
    return this.problems.splice(0);
  }

  strike(): Promise<void> {
    return this.#stack.disposeAsync();
  }

  async #freshContext(): Promise<BrowserContext> {
    const browser = this.#ordinary.browser();
    if (!browser) throw new Error("the browser is gone");
    const context = await browser.newContext();
    this.#contexts.push(context);
    return context;
  }
}

/** Sets the stage for all tests of a file. After each of them no page may have logged an error or left a rejection unhandled. */
export function useStage(variables: Readonly<Record<string, string>> = {}, token?: string): () => Stage {
  let stage: Stage | undefined;
  beforeAll(async () => {
    stage = await Stage.set(variables, token);
  });
  afterEach(async () => {
    expect(await stage?.clear()).toEqual([]);
  });
  afterAll(() => stage?.strike());
  return () => {
    if (!stage) throw new Error("the stage is not set");
    return stage;
  };
}
