// What arrives from outside makes no time series: not a client, not a path, not a method, not a token.
import { Agent, request } from "node:http";
import { expect, test } from "vitest";
import { useCleanup } from "../support/cleanup.ts";
import { scaled } from "../support/runs.ts";
import { stageHttp } from "../support/stage.ts";

const cleanup = useCleanup();
/** A multiple of 100. */
const count = scaled(10_000);

const methods = ["GET", "POST", "PUT", "DELETE", "PATCH", "PROPFIND", "MKCOL", "REPORT", "PURGE", "LOCK"];

function send(
  url: string,
  options: { agent: Agent; method: string; headers: Record<string, string> },
): Promise<number> {
  return new Promise((resolve, reject) => {
    const sent = request(url, options, (response) => {
      response.resume();
      response.on("end", () => resolve(response.statusCode ?? 0));
    });
    sent.on("error", reject);
    sent.end();
  });
}

async function seriesOf(adminUrl: string): Promise<string[]> {
  const text = await (await fetch(`${adminUrl}/metrics`)).text();
  return text
    .split("\n")
    .filter((line) => line !== "" && !line.startsWith("#"))
    .map((line) => line.slice(0, line.lastIndexOf(" ")))
    .sort();
}

// No two have the same client, path, query or token.
test(`${count} different clients, paths, methods and tokens leave the series as they were after the first hundred`, async () => {
  const overrides = { clientAddress: { trustedProxies: ["127.0.0.1"] }, log: { access: false } };
  const { gateway } = await stageHttp(cleanup, undefined, overrides);
  const agent = cleanup(new Agent({ keepAlive: true, maxSockets: 50 }));
  let before = await seriesOf(gateway.adminUrl);
  const most = before.length + 80;
  const statuses = new Map<number, number>();
  for (let batch = 0; batch < count / 100; batch += 1) {
    const answers = await Promise.all(
      Array.from({ length: 100 }, (_, i) => {
        const n = batch * 100 + i;
        const headers: Record<string, string> = { "x-forwarded-for": `10.${n >> 16}.${(n >> 8) & 255}.${n & 255}` };
        if (n % 10 !== 0) headers["authorization"] = `Bearer token-${n}`;
        const path = n % 7 === 0 ? `/elsewhere/${n}` : `/v${1 + (n % 2)}/${n}?q=${n}`;
        return send(`${gateway.url}${path}`, { agent, method: methods[n % methods.length] ?? "GET", headers });
      }),
    );
    for (const status of answers) statuses.set(status, (statuses.get(status) ?? 0) + 1);
    // The first hundred have every method on every route, which makes the series of those that are rare.
    if (batch === 0) before = await seriesOf(gateway.adminUrl);
  }
  expect([...statuses.keys()].sort()).toEqual([200, 401, 404]);
  expect(await seriesOf(gateway.adminUrl)).toEqual(before);
  expect(before.length).toBeLessThan(most);
  expect(before.join("\n")).not.toMatch(/token-|10\.0\.|elsewhere/);
});
