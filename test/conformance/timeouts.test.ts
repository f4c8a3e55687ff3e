// Every timeout of the configuration, each against a peer that keeps it waiting: not before its time, and not long after
// it. All of them at once, beside each other.
import type { Socket } from "node:net";
import { beforeAll, describe, expect, test } from "vitest";
import { useSharedCleanup } from "../support/cleanup.ts";
import { eventually, stallMs } from "../support/eventually.ts";
import type { Overrides } from "../support/gateway.ts";
import { metric } from "../support/metrics.ts";
import type { RawConnection } from "../support/raw-connection.ts";
import { request, response, type Stage, stageRaw } from "../support/stage.ts";
import { unacceptingAddress } from "../support/unavailable.ts";
import type { RawUpstream } from "../support/upstream.ts";

/** Otherwise a timeout could be over before what precedes the wait has been read. */
const ms = stallMs;
/** Node looks at its connections every half second, and a machine that is busy may be late by much more. */
const slackMs = 6_000;
const endless = 3_600_000;

interface Case {
  /** Every other timeout is an hour. */
  readonly overrides: Overrides;
  readonly onData?: (socket: Socket, data: Buffer) => void;
  /** Whatever comes before the wait; it begins when this is done. */
  readonly before?: (client: RawConnection, stage: Stage<RawUpstream>) => Promise<void>;
  /** Keeps the gateway waiting. Written again and again if `drips`. */
  readonly write?: string;
  readonly drips?: boolean;
  readonly reads?: false;
  readonly isUnaccepting?: true;
  /** The status of the answer, or null if the connection just ends. */
  readonly status: number | null;
}

const answered = async (client: RawConnection): Promise<void> => {
  client.write(request("/v2/x"));
  if ((await client.read()).status !== 200) throw new Error("not answered");
};
const ok = (socket: Socket): void => void socket.write(response("ok"));
const post = request("/v2/x", { method: "POST", fields: "Content-Length: 100000\r\n" });
const offer = request("/v2/x", { fields: "Connection: Upgrade\r\nUpgrade: websocket\r\n" });
const flood = (socket: Socket): void => void socket.write(response("x".repeat(30_000_000)));
const halfBody = (socket: Socket): void => void socket.write("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf");
const accept = (socket: Socket, data: Buffer): void => {
  if (!data.includes("GET ")) return;
  socket.write("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
};

const head = { timeouts: { headMs: ms } };
const keepAlive = { timeouts: { keepAliveMs: ms } };
const body = { timeouts: { bodyMs: ms } };
const responseWait = { upstream: { responseTimeoutMs: ms } };
const bodyWait = { upstream: { bodyTimeoutMs: ms } };

const cases: Record<string, Case> = {
  "timeouts.head: a client that says nothing": { overrides: head, status: null },
  "timeouts.head: half a head": { overrides: head, write: "GET /v2/x HTTP/1.1\r\nX: ", status: 408 },
  "timeouts.head: a head byte by byte": {
    overrides: head,
    before: async (client) => void client.write("GET /v2/"),
    write: "x",
    drips: true,
    status: 408,
  },
  "timeouts.head: half a head on a kept connection": {
    overrides: head,
    onData: ok,
    before: answered,
    write: "GET /v2/x HTTP/1.1\r\nX: ",
    status: 408,
  },
  "timeouts.head: half a PROXY header": {
    overrides: { ...head, listen: { proxyProtocol: true } },
    write: "PROXY TCP4 192.0.2.1",
    status: null,
  },
  "timeouts.keepAlive: an idle connection": { overrides: keepAlive, onData: ok, before: answered, status: null },
  "timeouts.keepAlive and head: nothing but empty lines": {
    overrides: { timeouts: { keepAliveMs: ms, headMs: ms } },
    onData: ok,
    before: answered,
    write: "\r\n",
    drips: true,
    status: null,
  },
  "timeouts.body: a body that does not come": { overrides: body, write: post, status: 408 },
  "timeouts.body: a body byte by byte": {
    overrides: body,
    before: async (client) => void client.write(post),
    write: "x",
    drips: true,
    status: 408,
  },
  "timeouts.body: an answer that is not read": {
    overrides: body,
    onData: flood,
    reads: false,
    write: request("/v2/x"),
    status: null,
  },
  "upstream.connectTimeout: an upstream that does not accept": {
    overrides: { upstream: { connectTimeoutMs: ms } },
    isUnaccepting: true,
    write: request("/v2/x"),
    status: 504,
  },
  "upstream.connectTimeout: an Upgrade to an upstream that does not accept": {
    overrides: { upstream: { connectTimeoutMs: ms } },
    isUnaccepting: true,
    write: offer,
    status: 504,
  },
  "upstream.connectTimeout: no connection that is free": {
    overrides: { upstream: { connectTimeoutMs: ms, maxConnections: 1 } },
    before: async (_, { connect, upstream }) => {
      connect().write(request("/v2/other"));
      await eventually("the other is at the upstream", () => upstream.bytes() !== "");
    },
    write: request("/v2/x"),
    status: 503,
  },
  "upstream.responseTimeout: no answer": { overrides: responseWait, write: request("/v2/x"), status: 504 },
  "upstream.bodyTimeout: a body that stalls": {
    overrides: bodyWait,
    onData: halfBody,
    write: request("/v2/x"),
    status: 200,
  },
  "upstream.bodyTimeout: a body that stalls behind a whole request": {
    overrides: bodyWait,
    onData: halfBody,
    write: request("/v2/x", { method: "POST", fields: "Content-Length: 2\r\n", body: "hi" }),
    status: 200,
  },
  "upstream.responseTimeout: no answer to an Upgrade": { overrides: responseWait, write: offer, status: 504 },
  "upgrade.idleTimeout: a tunnel without a byte": {
    overrides: { upgrade: { idleTimeoutMs: ms } },
    onData: accept,
    write: offer,
    status: 101,
  },
};

const hours: Overrides = {
  timeouts: { headMs: endless, bodyMs: endless, keepAliveMs: endless },
  upstream: { connectTimeoutMs: endless, responseTimeoutMs: endless, bodyTimeoutMs: endless },
  upgrade: { idleTimeoutMs: endless },
};

function hoursBut(overrides: Overrides): Overrides {
  const merged: Record<string, unknown> = { ...hours, ...overrides };
  for (const key of ["timeouts", "upstream", "upgrade"] as const) merged[key] = { ...hours[key], ...overrides[key] };
  return merged as Overrides;
}

interface Outcome {
  readonly status: number | null;
  readonly waitedMs: number;
}

/** From the connection's beginning until it has ended, or an answer says why it did not go on. */
async function run({ before, write = "", drips, reads }: Case, stage: Stage<RawUpstream>): Promise<Outcome> {
  const beganMs = performance.now();
  const client = stage.connect();
  await new Promise((resolve) => client.socket.once("connect", resolve));
  await before?.(client, stage);
  // One that read would take what keeps the gateway waiting, so the gateway is asked whether it is gone.
  if (reads === false) client.socket.pause();
  if (write !== "") client.write(write);
  const drip = drips ? setInterval(() => client.write(write), 20) : undefined;
  const isOver = async (): Promise<boolean> =>
    reads === false
      ? (await metric(stage.gateway, "headgate_client_connections")) === 0
      : client.ending !== null || /^HTTP\/1\.1 [45]/.test(client.rest);
  await eventually("it is over", isOver, 10_000).finally(() => clearInterval(drip));
  const status = /^HTTP\/1\.1 (\d+) /.exec(client.rest)?.[1];
  return { status: status === undefined ? null : Number(status), waitedMs: performance.now() - beganMs };
}

describe("a timeout ends the wait, not before its time and not long after", () => {
  const cleanup = useSharedCleanup();
  const outcomes = new Map<string, Promise<Outcome>>();

  beforeAll(async () => {
    for (const [name, given] of Object.entries(cases)) {
      const overrides = hoursBut(given.overrides);
      const url = given.isUnaccepting ? { url: await unacceptingAddress(cleanup) } : {};
      const upstream = { ...overrides.upstream, ...url };
      const stage = await stageRaw(cleanup, given.onData ?? (() => {}), { ...overrides, upstream });
      const outcome = run(given, stage);
      outcome.catch(() => {});
      outcomes.set(name, outcome);
    }
  });

  test.each(Object.entries(cases))("%s", async (name, { status }) => {
    const outcome = await outcomes.get(name);
    expect(outcome?.status).toBe(status);
    // Timers may be a little early.
    expect(outcome?.waitedMs).toBeGreaterThan(ms - 50);
    expect(outcome?.waitedMs).toBeLessThan(ms + slackMs);
  });
});
