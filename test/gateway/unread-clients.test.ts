// Clients whose address a trusted proxy writes in a form that cannot be read share its quota; that must be seen. Case: all IPv6
// clients behind an ordinary configuration shared one quota, and no line and no metric said so.
import { expect, test } from "vitest";
import { useCleanup } from "../support/cleanup.ts";
import { eventually } from "../support/eventually.ts";
import type { TestGateway } from "../support/gateway.ts";
import { valuesOf } from "../support/raw-client.ts";
import { request, stageHttp } from "../support/stage.ts";

const cleanup = useCleanup();
const start = () => stageHttp(cleanup, undefined, { clientAddress: { trustedProxies: ["127.0.0.1"] } });

const unreadLines = ({ logLines }: TestGateway) => logLines.filter(({ msg }) => String(msg).includes("cannot be read"));

async function unreadTotal({ adminUrl }: TestGateway): Promise<number> {
  const text = await (await fetch(`${adminUrl}/metrics`)).text();
  return Number(/^headgate_clients_unread_total (\d+)$/m.exec(text)?.[1]);
}

test("each of 129 IPv6 clients with a port and no brackets has its own quota", async () => {
  const { gateway, connect, upstream } = await start();
  const client = connect();
  for (let i = 0; i < 129; i += 1) {
    client.write(request("/v2/x", { fields: `X-Forwarded-For: 2001:db8:0:${i.toString(16)}::7:${10_000 + i}\r\n` }));
    const { status, rawHeaders } = await client.read();
    expect([status, ...valuesOf(rawHeaders, "RateLimit-Remaining")]).toEqual([200, "99"]);
  }
  expect(upstream.hits()).toBe(129);
  expect([await unreadTotal(gateway), unreadLines(gateway)]).toEqual([0, []]);
});

test("what cannot be read is counted for each request, and logged once a minute with its peer, never with its value", async () => {
  const { gateway, connect } = await start();
  const client = connect();
  const forms = ["2001:db8::7:65536", "garbage", "1.2.3.4, unknown", "2001:db8::7:443", "192.0.2.7", ""];
  // Each twice: a head that comes again is not read again.
  for (const form of forms.flatMap((each) => [each, each, each])) {
    expect((await client.ask(request("/v2/x", { fields: `X-Forwarded-For: ${form}\r\n` }))).status).toBe(200);
  }
  await eventually("all are counted", async () => (await unreadTotal(gateway)) === 9);
  const lines = unreadLines(gateway);
  expect(lines).toMatchObject([{ level: "warn", peer: "127.0.0.1" }]);
  expect(JSON.stringify(lines)).not.toMatch(/65536|garbage|unknown/);
});

test("from an untrusted peer, nothing is read, counted or logged", async () => {
  const { gateway, connect } = await stageHttp(cleanup);
  expect((await connect().ask(request("/v2/x", { fields: "X-Forwarded-For: garbage\r\n" }))).status).toBe(200);
  expect([await unreadTotal(gateway), unreadLines(gateway)]).toEqual([0, []]);
});
