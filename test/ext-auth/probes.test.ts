// The HTTP port for checks answers the probes of an orchestrator, who is no caller, with one word.
import { expect, test, vi } from "vitest";
import { type LocalReply, probeReplies } from "../../src/core/local-reply.ts";
import { NetworkSet } from "../../src/core/network-set.ts";
import type { Replaceable } from "../../src/core/settings.ts";
import { TextWrites } from "../../src/exchange/socket-writes.ts";
import type { ExtAuthHttpOptions } from "../../src/ext-auth/http/call-connection.ts";
import { startExtAuthHttp } from "../../src/ext-auth/http/http-listener.ts";
import { useCleanup } from "../support/cleanup.ts";
import { metric } from "../support/metrics.ts";
import { valuesOf } from "../support/raw-client.ts";
import { type FramedResponse, RawConnection } from "../support/raw-connection.ts";
import { holdTimers } from "../support/timers.ts";
import { type DecisionStage, stageDecision, token } from "./stage.ts";

const cleanup = useCleanup();
const nobody = { trustedCallers: ["203.0.113.1"] };
const counted = async ({ gateway }: DecisionStage, outcome: string): Promise<number> =>
  metric(gateway, `headgate_ext_auth_checks_total{outcome="${outcome}"}`);

/** One call over a connection of its own, and how that ended; null if it is kept. */
async function probe(stage: DecisionStage, line: string, fields = ""): Promise<[FramedResponse, string | null]> {
  const connection = stage.connect().write(`${line} HTTP/1.1\r\nHost: a\r\n${fields}\r\n`);
  const answer = await connection.read({ method: line.split(" ", 1)[0] ?? "" });
  const isLast = valuesOf(answer.rawHeaders, "Connection").join() === "close";
  return [answer, isLast ? await connection.closed : connection.ending];
}

test("anybody gets one word, and an untrusted caller's connection ends with it", async () => {
  const stage = await stageDecision(cleanup, nobody);
  for (const [line, body] of [
    ["GET /livez", "alive"],
    ["GET /readyz", "ready"],
    ["HEAD /livez", ""],
    ["HEAD /readyz", ""],
  ] as const) {
    const [answer, ending] = await probe(stage, line);
    expect([line, answer.status, answer.body, ending]).toEqual([line, 200, body, "end"]);
    expect(valuesOf(answer.rawHeaders, "Content-Length")).toEqual(["5"]);
    expect(valuesOf(answer.rawHeaders, "Cache-Control")).toEqual(["no-store"]);
    expect(valuesOf(answer.rawHeaders, "Date")).toHaveLength(1);
    // It is no decision: an ingress that is told to ask here by mistake must not find one.
    expect(valuesOf(answer.rawHeaders, "X-Headgate-Status")).toEqual([]);
  }
});

test("a trusted caller's connection stays open", async () => {
  const { connect } = await stageDecision(cleanup);
  const connection = connect();
  for (let i = 0; i < 3; i += 1) {
    expect((await connection.ask("GET /readyz HTTP/1.1\r\nHost: a\r\n\r\n")).body).toBe("ready");
  }
  connection.write(`GET /ext-authz/v2/x HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 192.0.2.1\r\n${token}\r\n`);
  expect((await connection.read()).status).toBe(200);
});

test("any other method, query or spelling is a check like another", async () => {
  const stage = await stageDecision(cleanup, nobody);
  const lines = [
    "POST /livez",
    "OPTIONS /readyz",
    "GET /livez?x",
    "GET /livez/",
    "GET //readyz",
    "GET /Livez",
    "GET /%6civez",
  ];
  for (const line of lines) expect([line, (await probe(stage, line))[0].status]).toEqual([line, 403]);
  expect(await counted(stage, "untrusted")).toBe(lines.length);
});

test("probes count neither as refused nor as first calls", async () => {
  const stage = await stageDecision(cleanup, nobody);
  for (let i = 0; i < 5; i += 1) await probe(stage, "GET /ext-authz/v2/x");
  for (let i = 0; i < 12; i += 1) await probe(stage, i % 2 === 0 ? "GET /livez" : "GET /readyz");
  expect(await counted(stage, "untrusted")).toBe(5);
  expect(await counted(stage, "malformed")).toBe(0);
  const warnings = () => stage.gateway.logLines.filter(({ calls }) => calls === 10);
  expect(warnings()).toHaveLength(0);
  // Nor have they ended the wait for ten calls that are all refused.
  for (let i = 0; i < 5; i += 1) await probe(stage, "GET /ext-authz/v2/x");
  expect(warnings()).toHaveLength(1);
});

test("a probe makes no caller of a stranger: its connection keeps no caller's place", async () => {
  const http = { host: "127.0.0.1", port: 0, maxConnections: 1 };
  const { connect } = await stageDecision(cleanup, { ...nobody, http });
  // All are open at once, and more than there are places for callers.
  const probes = Array.from({ length: 20 }, connect);
  for (const connection of probes) connection.write("GET /readyz HTTP/1.1\r\nHost: a\r\n\r\n");
  for (const connection of probes)
    expect([(await connection.read()).status, await connection.closed]).toEqual([200, "end"]);
});

test("in a drain /readyz is 503 while /livez and decisions go on", async () => {
  holdTimers(cleanup);
  const drain = { delayMs: 3_000, timeoutMs: 1_000 };
  const stage = await stageDecision(cleanup, {}, { drain });
  const drained = stage.gateway.close();
  const [notReady] = await probe(stage, "GET /readyz");
  expect([notReady.status, notReady.body]).toEqual([503, "draining"]);
  const [alive] = await probe(stage, "GET /livez");
  expect([alive.status, alive.body]).toEqual([200, "alive"]);
  const [decided] = await probe(stage, "GET /ext-authz/v2/x", `X-Forwarded-For: 192.0.2.1\r\n${token}`);
  expect(decided.status).toBe(200);
  vi.advanceTimersByTime(drain.delayMs);
  await drained;
});

test("until the gateway announces its start, /readyz is 503", async () => {
  const settings = {
    callers: { include: () => true, includeAddress: () => true },
    clientAddress: { header: "x-forwarded-for", ipv6Prefix: 64, trustedProxies: new NetworkSet([]) },
    headBounds: { maxBytes: 16_384, maxFields: 100 },
    ...{ headTimeoutMs: 5_000, keepAliveTimeoutMs: 5_000, maxConnections: { http: 10, grpc: 10 } },
  };
  const readiness: Replaceable<LocalReply> = { current: probeReplies.starting };
  const listener = await startExtAuthHttp({
    ...{ settings: { current: settings }, readiness, checks: { date: "" }, reads: null, textWrites: new TextWrites() },
    ...{ host: "127.0.0.1", port: 0, isShared: false, onFailure: () => {}, onRefused: () => {} },
  } as unknown as ExtAuthHttpOptions);
  cleanup(() => listener.drain(0));
  const connection = new RawConnection(listener.port);
  const ask = async (): Promise<[number, string]> => {
    const { status, body } = await connection.ask("GET /readyz HTTP/1.1\r\nHost: a\r\n\r\n");
    return [status, body];
  };
  expect(await ask()).toEqual([503, "starting"]);
  readiness.current = probeReplies.ready;
  expect(await ask()).toEqual([200, "ready"]);
  readiness.current = probeReplies.draining;
  expect(await ask()).toEqual([503, "draining"]);
});
