// docs/timeouts.md: each row fits the default that it stands beside, or says what to set instead.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { keepAliveMs } from "../../src/core/http-bounds.ts";
import { serverOptions } from "../../src/fastify/index.ts";
import { testSettings } from "../support/gateway.ts";
import { read, root } from "./markdown.ts";

const { timeouts, upgrade } = testSettings("http://127.0.0.1:1");
const page = read("docs/timeouts.md");

/** The cells of the rows below a heading. */
function rowsOf(heading: string): string[][] {
  const section = page.split(`# ${heading}\n`)[1]?.split("\n#")[0] ?? "";
  const [, , ...lines] = section.split("\n").filter((line) => line.startsWith("|"));
  return lines.map((line) =>
    line
      .split("|")
      .slice(1, -1)
      .map((cell) => cell.trim()),
  );
}

/** The longest time that a cell names; infinite for "as long as possible". */
function msOf(cell = ""): number {
  const times = [...cell.matchAll(/(\d+)s\b/g)].map(([, seconds]) => 1000 * Number(seconds));
  return times.length === 0 ? Number.POSITIVE_INFINITY : Math.max(...times);
}

test("every listener keeps an idle connection for the time that the page names", () => {
  expect(timeouts.keepAliveMs).toBe(keepAliveMs);
  expect(serverOptions().keepAliveTimeout).toBe(keepAliveMs);
  expect(page).toContain(`\`timeouts.keepAlive\` (${keepAliveMs / 1000}s)`);
});

test.each(rowsOf("Proxies and balancers in front"))("%s closes first, or the page says what to set", (...cells) => {
  const [, , kept, toSet = ""] = cells;
  expect([kept, toSet === ""]).toEqual([kept, msOf(kept) < timeouts.keepAliveMs]);
  const [, ours] = /`timeouts\.keepAlive: (\w+)`/.exec(toSet) ?? [];
  if (ours !== undefined) expect(msOf(ours)).toBeGreaterThan(msOf(kept));
});

test("the shipped files of Envoy and Istio, which keep connections for an hour by themselves, set less", () => {
  const shipped = (file: string): string => readFileSync(join(root, "deploy/ingress", file), "utf8");
  const [, envoy] = /idle_timeout: (\w+)/.exec(shipped("envoy/envoy.yaml")) ?? [];
  const [, istio] = /idleTimeout: (\w+)/.exec(shipped("istio/headgate.yaml")) ?? [];
  for (const time of [envoy, istio]) expect(msOf(time)).toBeLessThan(timeouts.keepAliveMs);
});

test.each(rowsOf("Clients"))("%s closes first", (_, kept) => {
  expect(msOf(kept)).toBeLessThan(timeouts.keepAliveMs);
});

test.each(rowsOf("Heartbeats"))("%s comes in time", (_, every, bound) => {
  expect(msOf(bound)).toBe(upgrade.idleTimeoutMs);
  expect(msOf(every)).toBeLessThan(msOf(bound));
});
