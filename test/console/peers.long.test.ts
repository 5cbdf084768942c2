/** What the console shows of a group of deployments. */
import { expect, it } from "vitest";
import { useStage } from "../browser/support/stage.ts";
import { Group } from "../godistlock/group.ts";
import { NODE } from "../support/hosts.ts";
import { expectUsable, picture, visit } from "./support/visitor.ts";

const stage = useStage();

it("the header names the peers, and says when they are no majority any more", async () => {
  await using group = await Group.start(NODE, NODE, NODE);
  const page = await visit(stage(), "#/", { service: `http://127.0.0.1:${group.at(0).httpPort}` });
  const shown = page.getByRole("region", { name: "Group" });
  await shown.getByText("Quorum: 3 of 3 deployments, 2 needed").waitFor();
  expect(await shown.getByRole("listitem").allTextContents()).toEqual([
    expect.stringMatching(/^s1 heard [\d.]+ m?s ago$/),
    expect.stringMatching(/^s2 heard [\d.]+ m?s ago$/),
  ]);
  await expectUsable(page);
  await picture(page, "peers-quorum");
  await Promise.all([group.at(1).kill9(), group.at(2).kill9()]);
  await shown.getByText("No quorum: 1 of 3 deployments, 2 needed").waitFor();
  await shown.getByText(/^s1 silent for/).waitFor();
  await expectUsable(page);
  await picture(page, "peers-no-quorum");
});

it("a service without peers shows none, and is not asked for them", async () => {
  const page = await visit(stage());
  const asked: string[] = [];
  page.on("request", (request) => asked.push(new URL(request.url()).pathname));
  await page.reload();
  await page.getByText("Live", { exact: true }).waitFor();
  expect(await page.getByRole("region", { name: "Group" }).count()).toBe(0);
  expect(asked).toContain("/v1/stats");
  expect(asked).not.toContain("/v1/relay");
});
