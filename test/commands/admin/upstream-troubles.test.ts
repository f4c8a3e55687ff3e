// An upstream in trouble: `status` says what fails, how often and where, and `why` says it of one request, at once.
import type { Socket } from "node:net";
import { expect, type TestContext, test } from "vitest";
import { cleanupOf } from "../../support/cleanup.ts";
import { freePort } from "../../support/free-port.ts";
import { startLoopbackServer } from "../../support/loopback-server.ts";
import { startUpstream } from "../../support/upstream.ts";
import { stageCommands } from "./command-stage.ts";

/** The address of an upstream that does this with each piece of a request. */
async function troubled(context: TestContext, onData: (socket: Socket) => void): Promise<string> {
  const { url } = await startLoopbackServer(cleanupOf(context), (socket) => socket.on("data", () => onData(socket)));
  return new URL(url).host;
}

const reset = (socket: Socket): void => void socket.resetAndDestroy();
const nonsense = (socket: Socket): void => void socket.end("NOT HTTP\r\n\r\n");
const silence = (): void => {};
const broken = (socket: Socket): void => {
  socket.write("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx", () => setTimeout(() => socket.resetAndDestroy(), 20));
};

const yamlOf = (addresses: readonly string[]): string =>
  `upstream: { addresses: [${addresses.map((each) => `"${each}"`).join(", ")}], responseTimeout: 150ms }\n`;

test.for<[string, (context: TestContext) => Promise<string>, number, string]>([
  ["refused", async () => `127.0.0.1:${await freePort()}`, 502, "(ECONNREFUSED)"],
  ["reset", (context) => troubled(context, reset), 502, "(ECONNRESET)"],
  ["malformed", (context) => troubled(context, nonsense), 502, "What is wrong with it: a version other than HTTP/1."],
  ["response_timeout", (context) => troubled(context, silence), 504, "The upstream did not answer in time."],
])(
  "%s: the cause and its address are in status, and in why of each request",
  async ([reason, open, status, more], context) => {
    const address = await open(context);
    const { gateway, headgate } = await stageCommands(cleanupOf(context), yamlOf([address]));
    const response = await fetch(`${gateway.url}/v2/x`, { headers: { authorization: "Bearer x" } });
    expect(response.status).toBe(status);
    const { out } = await headgate("status");
    expect(out).toMatch(
      new RegExp(
        `^upstream +down \\(${reason}\\)\n +in the last 5 min: 1 request, 1 of them \\(100 %\\) FAILED\n`,
        "m",
      ),
    );
    expect(out).toContain(`1 × ${reason} at ${address}\n`);
    const why = await headgate(["why", response.headers.get("x-request-id") ?? ""]);
    expect(why.out).toContain(`got ${status} (`);
    expect(why.out).toContain(`The failure was ${reason} at ${address}`);
    expect(why.out).toContain(more);
    // It is not refused, so its list is all that says why it got no answer.
    const ofClient = await headgate("why 127.0.0.1");
    expect(ofClient.out).toMatch(
      new RegExp(` UTC {2}${status} upstream_\\w+ {2}${reason} at ${address} {2}GET /v2/x `),
    );
  },
);

test("half of the addresses: the one that fails is named, though the upstream is up", async (context) => {
  const upstream = await startUpstream();
  cleanupOf(context)(() => upstream.close());
  const address = await troubled(context, nonsense);
  const { gateway, headgate } = await stageCommands(cleanupOf(context), yamlOf([new URL(upstream.url).host, address]));
  const statuses: number[] = [];
  for (let i = 0; i < 40; i += 1) {
    statuses.push((await fetch(`${gateway.url}/v2/x`, { headers: { authorization: "Bearer x" } })).status);
  }
  const failures = statuses.filter((status) => status === 502).length;
  expect(failures).toBeGreaterThan(5);
  expect(failures).toBeLessThan(35);
  const { out, json } = { ...(await headgate("status")), json: (await headgate("status --json")).json };
  const share = Math.ceil((100 * failures) / 40);
  expect(out).toMatch(
    new RegExp(
      `in the last 5 min: 40 requests, answered in \\d+ ms on average, ${failures} of them \\(${share} %\\) FAILED\n`,
    ),
  );
  expect(out).toContain(`${failures} × malformed at ${address}\n`);
  expect(json).toMatchObject({
    upstream: {
      lastMinutes: { answered: 40 - failures, failures: [{ reason: "malformed", address, count: failures }] },
    },
  });
});

test("an upstream that hangs while clients leave is told, though nothing has failed", async (context) => {
  let asked = () => {};
  const address = await troubled(context, () => asked());
  const { gateway, headgate } = await stageCommands(cleanupOf(context), `upstream: { addresses: ["${address}"] }\n`);
  for (let i = 0; i < 2; i += 1) {
    const client = new AbortController();
    asked = () => client.abort();
    await expect(
      fetch(`${gateway.url}/v2/x`, { headers: { authorization: "Bearer x" }, signal: client.signal }),
    ).rejects.toThrow();
  }
  const abandoned = "2 more requests: the client left before the upstream answered\n";
  await expect.poll(async () => (await headgate("status")).out).toContain(abandoned);
  expect((await headgate("status --json")).json).toMatchObject({
    upstream: { lastMinutes: { answered: 0, abandoned: 2, failures: [] } },
  });
});

test("a response that breaks off is explained, though it has the status of its head", async (context) => {
  const address = await troubled(context, broken);
  const { gateway, headgate } = await stageCommands(cleanupOf(context), yamlOf([address]));
  const response = await fetch(`${gateway.url}/v2/x`, { headers: { authorization: "Bearer x" } });
  expect(response.status).toBe(200);
  await expect(response.text()).rejects.toThrow();
  const { out } = await headgate(["why", response.headers.get("x-request-id") ?? ""]);
  expect(out).toMatch(/GET \/v2\/x from 127\.0\.0\.1 got 200\.\n/);
  expect(out).toContain("The upstream failed after the head of its response, so the response broke off.");
  expect(out).toContain(`The failure was reset at ${address} (ECONNRESET).`);
  const { json } = await headgate(["why", response.headers.get("x-request-id") ?? "", "--json"]);
  expect(json).toMatchObject({ request: { reason: null } });
  expect((await headgate("why 127.0.0.1")).out).toContain(` UTC  200 broken off  reset at ${address}  GET /v2/x `);
  const status = await headgate("status");
  expect(status.out).toMatch(/^ +in the last 5 min: 1 request, 1 of them \(100 %\) FAILED\n/m);
});
