// A proxy that nobody trusts makes one client of all clients behind it; that must be seen within ten seconds. Case: 200 clients
// behind such a proxy shared one quota, and nothing said so for two minutes.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import type { Status } from "../../src/admin/control-plane.ts";
import { statusLines } from "../../src/commands/admin/status-report.ts";
import { readToken } from "../admin/api-stage.ts";
import { digestOf } from "../auth/digest.ts";
import { useCleanup } from "../support/cleanup.ts";
import { FakeClock } from "../support/clock.ts";
import { eventually } from "../support/eventually.ts";
import { type Overrides, type TestGateway, testSettings } from "../support/gateway.ts";
import { valuesOf } from "../support/raw-client.ts";
import { RawConnection } from "../support/raw-connection.ts";
import { threadCounts } from "../support/runs.ts";
import { scratchFolder } from "../support/scratch.ts";
import { request, stageHttp } from "../support/stage.ts";

const cleanup = useCleanup();
const naming = (i: number) => request("/v2/x", { fields: `X-Forwarded-For: 203.0.113.${i}\r\n` });
const linesOf = ({ logLines }: TestGateway) => logLines.filter(({ msg }) => String(msg).includes("names many clients"));

async function start(changes: Overrides = {}) {
  const tokensFile = join(scratchFolder(cleanup), "admin.txt");
  writeFileSync(tokensFile, `${digestOf(readToken)} read # dashboard\n`);
  const overrides = { admin: { tokensFile }, ...changes };
  const { upstream, gateway } = await stageHttp(cleanup, undefined, overrides);
  const settings = (more: Overrides) => testSettings(upstream.url, { ...overrides, ...more });
  return { gateway, settings, ask: asking(gateway), status: () => statusOf(gateway) };
}

/** Over so many connections, in turn, which several threads then have. */
function asking({ traffic }: TestGateway, connections = 8): (bytes: string, i: number) => Promise<string[]> {
  const clients: RawConnection[] = [];
  return async (bytes, i) => {
    const client = clients[i % connections] ?? new RawConnection(traffic.port);
    if (clients[i % connections] === undefined) cleanup(() => client.destroy());
    clients[i % connections] = client;
    const { status, rawHeaders } = await client.ask(bytes);
    return [`${status}`, ...valuesOf(rawHeaders, "RateLimit-Remaining")];
  };
}

async function statusOf({ adminUrl }: TestGateway): Promise<Status> {
  const headers = { authorization: `Bearer ${readToken}` };
  return (await (await fetch(`${adminUrl}/api/status`, { headers })).json()) as Status;
}

describe.each(threadCounts)("with %d threads", (workers) => {
  test("is named at its 20th address, in the log once and in the status, and nothing is decided otherwise", async () => {
    const { gateway, ask, status, settings } = await start({ workers });
    for (let i = 0; i < 19; i += 1) expect(await ask(naming(i), i)).toEqual(["200", `${99 - i}`]);
    expect([linesOf(gateway), (await status()).possibleProxies]).toEqual([[], []]);
    for (let i = 19; i < 30; i += 1) expect(await ask(naming(i), i)).toEqual(["200", `${99 - i}`]);
    await eventually("the line is written", async () => linesOf(gateway).length > 0);
    expect(linesOf(gateway)).toMatchObject([
      {
        level: "warn",
        peer: "127.0.0.1",
        key: "clientAddress.trustedProxies",
        msg: expect.stringContaining("only if it is your own proxy"),
      },
    ]);
    const shown = await status();
    expect(shown.possibleProxies).toEqual(["127.0.0.1"]);
    const lines = statusLines(shown, Date.now()).join("\n");
    expect(lines).toMatch(/possible proxy +127\.0\.0\.1 is not trusted/);
    expect(lines).toContain("only if it is your own proxy");
    // Once it is trusted, nothing is left to say.
    await gateway.reload(settings({ clientAddress: { trustedProxies: ["127.0.0.1"] } }));
    expect((await status()).possibleProxies).toEqual([]);
  });
});

test("a head that comes again still counts in the ten seconds in which it comes", async () => {
  const clock = new FakeClock();
  const { gateway } = await stageHttp(cleanup, undefined, {}, clock);
  const ask = asking(gateway, 20);
  // One client in a second, until each connection knows its head, then all of them within one second.
  for (const gapMs of [1_000, 1_000, 20]) {
    expect(linesOf(gateway)).toEqual([]);
    for (let i = 0; i < 20; i += 1) {
      clock.advance(gapMs);
      await ask(naming(i), i);
    }
  }
  expect(linesOf(gateway)).toHaveLength(1);
});

test("what a client cannot make it say", async () => {
  const { gateway, ask, status } = await start();
  const fields = ["X-Forwarded-For: 203.0.113.7", "Forwarded: for=198.51.100.%d", "X-Real-IP: 198.51.100.%d", "X-A: 1"];
  const all = [...fields, "X-Forwarded-For: garbage-%d", "X-Forwarded-For: 198.51.100.%d, 203.0.113.7"];
  for (const [n, field] of all.entries()) {
    for (let i = 0; i < 25; i += 1) {
      await ask(request("/v2/x", { fields: `${field.replace("%d", `${i}`)}\r\n` }), n * 25 + i);
    }
  }
  expect([linesOf(gateway), (await status()).possibleProxies]).toEqual([[], []]);
});
