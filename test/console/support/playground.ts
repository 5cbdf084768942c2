/** The playground in a tab, in the words of its visitor. */
import type { Locator, Page } from "playwright-core";
import { expect } from "vitest";
import type { Stage } from "../../browser/support/stage.ts";
import { type Look, visit } from "./visitor.ts";

export class Playground {
  readonly page: Page;
  readonly holders: Locator;
  readonly queue: Locator;
  readonly log: Locator;
  readonly thing: Locator;

  constructor(page: Page) {
    this.page = page;
    this.holders = page.getByRole("list", { name: "Holders" });
    this.queue = page.getByRole("list", { name: "Queue" });
    this.log = page.getByRole("log");
    this.thing = page.getByRole("region", { name: "The thing the lock protects" });
  }

  static async open(stage: Stage, look: Look = {}): Promise<Playground> {
    const playground = new Playground(await visit(stage, "#/playground", look));
    await playground.isReady();
    return playground;
  }

  /** Resolves once all clients are connected that are there at first. */
  async isReady(): Promise<void> {
    for (const name of ["Ada", "Ben", "Cleo"]) await this.shows(name, "connected");
  }

  card(name: string): Locator {
    return this.page.getByRole("region", { name, exact: true });
  }

  button(name: string, action: string): Locator {
    return this.card(name).getByRole("button", { name: action, exact: true });
  }

  async does(name: string, action: string): Promise<void> {
    await this.button(name, action).click();
  }

  /** Resolves once the card says so. */
  async shows(name: string, text: string | RegExp): Promise<void> {
    try {
      await this.card(name).getByText(text).first().waitFor();
    } catch (cause) {
      const [card, log] = [await this.card(name).textContent(), await this.log.textContent()];
      throw new Error(`${name} does not show ${text}, but:\n${card}\nThe log says:\n${log}`, { cause });
    }
  }

  /** Lets clients take the key one after the other, until each has it or stands in the queue. */
  async acquireInTurn(...names: string[]): Promise<void> {
    for (const name of names) {
      await this.does(name, "Acquire");
      await this.shows(name, /^(Holding|Waiting, position)/);
    }
  }

  async fenceOf(name: string): Promise<string> {
    return (await this.card(name).locator(".fence").textContent()) ?? "";
  }

  key(): Promise<string> {
    return this.page.getByLabel("Key").inputValue();
  }

  async useKey(key: string): Promise<void> {
    await this.page.getByLabel("Key").fill(key);
    await this.page.getByLabel("Key").press("Enter");
    await this.page.getByRole("heading", { name: `${key} as the service sees it` }).waitFor();
  }

  async useLease(lease: string): Promise<void> {
    await this.page.getByLabel("Lease").selectOption(lease);
  }

  /** Who holds it, once there are as many. */
  async held(length: number): Promise<string[]> {
    await expect.poll(() => this.holders.locator("b").count()).toBe(length);
    return this.holders.locator("b").allTextContents();
  }

  /** Who waits, in order, once there are as many. */
  async queued(length: number): Promise<string[]> {
    await expect.poll(() => this.queue.locator("b").count()).toBe(length);
    return this.queue.locator("b").allTextContents();
  }

  stepsDone(): Promise<number> {
    return this.page.getByText("Done:").count();
  }
}
