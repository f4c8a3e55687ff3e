// A bug behind the decision about a stream: one answer with the quota it was charged, told once.
import { connect } from "node:http2";
import { type AddressInfo, createServer } from "node:net";
import { expect, test } from "vitest";
import { readPeer } from "../../src/core/client-address.ts";
import type { ExchangeRecord } from "../../src/core/exchange-record.ts";
import { ResponseFields } from "../../src/core/fields.ts";
import type { Verdict } from "../../src/core/request-head.ts";
import { untouched } from "../../src/core/sliding-window.ts";
import { Http2Connection } from "../../src/transport/http2/http2-connection.ts";
import { useCleanup } from "../support/cleanup.ts";
import { FakeClock } from "../support/clock.ts";
import { eventually } from "../support/eventually.ts";
import { answerOf } from "../support/http2-client.ts";
import { valuesOf } from "../support/raw-client.ts";

const cleanup = useCleanup();
const policy = { name: "per-ip", limit: 100, windowMs: 60_000, maxClients: 10 };

test("a forwarder that throws is a 500 with the quota as it was charged, and told once", async () => {
  const clock = new FakeClock();
  const failures: unknown[] = [];
  const ended: ExchangeRecord[] = [];
  const now = untouched(policy, clock.nowMs);
  const message = { contentLength: 0, expectsContinue: false, problem: null };
  const reading = { message, target: { path: "/v2/x" }, route: "/v2/" };
  const verdict = { problem: null, client: "a", decision: { ...now, remaining: 99 }, reading, auth: "skipped" };
  const options = {
    headTimeoutMs: 1_000,
    keepAliveTimeoutMs: 1_000,
    stallTimeoutMs: 1_000,
    maxRequests: 10,
    decide: () => verdict as unknown as Verdict,
    requestId: () => "id",
    forward: () => {
      throw new Error("a bug");
    },
    onFailure: (error: unknown) => void failures.push(error),
  };
  const context = {
    fields: new ResponseFields({ clock, kinds: ["standard"], realm: "finance" }),
    nowMs: clock.monotonicMs,
    isDraining: () => false,
    observe: () => now,
    onEnd: (exchange: ExchangeRecord) => void ended.push(exchange),
  };
  const peer = readPeer("127.0.0.1", { header: "x-forwarded-for", trustedProxies: [], ipv6Prefix: 64 });
  const server = createServer((socket) => {
    new Http2Connection({ socket, tcp: socket, peer, headerBytes: 0 }, options, context);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  cleanup(() => void server.close());
  const session = connect(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  cleanup(() => session.destroy());
  const answer = await answerOf(session.request({ ":path": "/v2/x" }));
  expect(answer.status).toBe(500);
  expect(valuesOf(answer.rawHeaders, "ratelimit-remaining")).toEqual(["99"]);
  await eventually("it is told of", () => ended.length > 0);
  await new Promise((resolve) => session.close(() => resolve(undefined)));
  expect(ended).toMatchObject([{ status: 500, problem: "internal" }]);
  expect(failures).toEqual([new Error("a bug")]);
});
