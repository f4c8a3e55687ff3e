// The table of docs/paths.md: each backend that can be had serves the spellings that the page says, and a policy for
// /v2/login counts all of these, or the gateway refuses them, except those that the page leaves open.
import { request as httpRequest } from "node:http";
import { describe, expect, test } from "vitest";
import { read } from "../../docs/markdown.ts";
import { useCleanup } from "../../support/cleanup.ts";
import { metric } from "../../support/metrics.ts";
import { slidingPolicy } from "../../support/policy.ts";
import { RawConnection } from "../../support/raw-connection.ts";
import { stageHttp } from "../../support/stage.ts";
import { type PathBackend, pathBackends, served } from "./backends.ts";

const cleanup = useCleanup();
const { HEADGATE_REQUIRE } = process.env;

const [, section = ""] = read("docs/paths.md").split(/^## Other /m);
const [head = [], , ...rows] = section
  .split("\n")
  .filter((line) => line.startsWith("|"))
  .map((line) => line.split("|").map((cell) => cell.trim()));
const column = (name: string): number => head.indexOf(name);
const spellings = rows.map((cells) => ({ spelling: (cells[1] ?? "").replaceAll("`", ""), cells }));

/** Node's client sends any path as it is. */
function get(port: number, path: string, headers: Readonly<Record<string, string>> = {}): Promise<boolean> {
  return new Promise((resolve, reject) => {
    const request = httpRequest({ port, host: "127.0.0.1", path, headers, agent: false }, (response) => {
      let body = "";
      response.setEncoding("latin1");
      response.on("data", (chunk: string) => (body += chunk));
      response.on("end", () => resolve(response.statusCode === 200 && body === served));
    });
    request.on("error", reject);
    request.end();
  });
}

test("the table has its spellings", () => {
  expect(spellings.length).toBeGreaterThan(20);
  for (const { name } of pathBackends) expect(column(name)).toBeGreaterThan(1);
  expect(new Set(spellings.map(({ cells }) => cells[column("the gateway")]))).toEqual(
    new Set(["counted", "400", "left open"]),
  );
  for (const { cells } of spellings) {
    const isOpen = cells[column("the gateway")] === "left open";
    expect([cells[1], cells[column("to close it")] !== ""]).toEqual([cells[1], isOpen]);
  }
});

describe.each(pathBackends)("$name", ({ name, debianPackage, isInstalled, start }: PathBackend) => {
  const runs = test.skipIf(!isInstalled && HEADGATE_REQUIRE !== "all");
  const needs = debianPackage === "" ? "" : ` (needs it: apt-get install ${debianPackage})`;

  runs(`serves the spellings that the page says, and no path that a header names${needs}`, async () => {
    const port = await start(cleanup);
    const seen = [];
    for (const { spelling } of spellings) seen.push([spelling, (await get(port, spelling)) ? "✓" : "–"]);
    expect(seen).toEqual(spellings.map(({ spelling, cells }) => [spelling, cells[column(name)]]));
    for (const header of ["X-Original-URL", "X-Rewrite-URL"]) {
      expect([header, await get(port, "/v2/other", { [header]: "/v2/login" })]).toEqual([header, false]);
    }
  });
});

test("the gateway does with each spelling what the page says", async () => {
  const limit = 1_000_000;
  const match = { paths: ["/v2/login"], methods: [] };
  const policies = [
    slidingPolicy({ name: "per-ip", limit, windowMs: 60_000 }),
    slidingPolicy({ name: "login", limit, windowMs: 60_000, match }),
  ];
  const { upstream, gateway } = await stageHttp(cleanup, undefined, { policies });
  const countedFor = (policy: string) =>
    metric(gateway, `headgate_decisions_total{policy="${policy}",outcome="admitted"}`);
  for (const { spelling, cells } of spellings) {
    const before = [await countedFor("login"), await countedFor("per-ip"), upstream.received.length];
    const client = new RawConnection(gateway.traffic.port);
    const { status } = await client.ask(`GET ${spelling} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer t\r\n\r\n`);
    client.destroy();
    const after = [await countedFor("login"), await countedFor("per-ip"), upstream.received.length];
    const [login, all, forwarded] = after.map((count, i) => count - (before[i] ?? 0));
    const does = cells[column("the gateway")];
    expect([spelling, status, forwarded]).toEqual([spelling, does === "400" ? 400 : 200, does === "400" ? 0 : 1]);
    // Every spelling is under the route, and so costs something.
    expect([spelling, all]).toEqual([spelling, 1]);
    if (does !== "400") expect([spelling, login]).toEqual([spelling, does === "counted" ? 1 : 0]);
    if (forwarded === 1) expect(upstream.received.at(-1)?.target).toBe(spelling);
  }
});
