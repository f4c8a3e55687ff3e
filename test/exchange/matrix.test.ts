// However a request comes, whenever its verdict is known and whatever happens to it then: its exchange ends once, is charged
// once, logged once and counted once. Through the real gateway; only the check of the token is made to wait or to fail.
import { connect } from "node:net";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import type { AuthOutcome } from "../../src/core/authentication.ts";
import { Exchange } from "../../src/exchange/exchange.ts";
import { useCleanup } from "../support/cleanup.ts";
import { eventually } from "../support/eventually.ts";
import { type Overrides, startTestGateway, type TestGateway } from "../support/gateway.ts";
import { metric, sumsOf } from "../support/metrics.ts";
import { inFull } from "../support/runs.ts";
import { useTls } from "../support/tls-listener.ts";
import { startRawUpstream } from "../support/upstream.ts";
import { type Carrier, carriers, type Sent } from "./carriers.ts";
import { createTokenCheck, type TokenCheck, upstreams, type When, whens } from "./verdicts.ts";

const cleanup = useCleanup();
const withTls = useTls();

/** Of the gateway of the test. */
let exchanges: Exchange[] = [];
beforeEach(() => {
  exchanges = [];
  const { start } = Exchange.prototype;
  vi.spyOn(Exchange.prototype, "start").mockImplementation(function (this: Exchange) {
    exchanges.push(this);
    start.call(this);
  });
});
afterEach(() => {
  vi.restoreAllMocks();
});

interface Stage extends Pick<TokenCheck, "asked" | "decide"> {
  readonly gateway: TestGateway;
  /** Requests that are at the upstream. */
  readonly atUpstream: () => number;
  send(): Sent;
}

interface Options {
  readonly upstream?: keyof typeof upstreams;
  readonly outcome?: () => AuthOutcome;
  readonly overrides?: Overrides;
}

async function stageOf(carrier: Carrier, when: When, options: Options = {}): Promise<Stage> {
  const { upstream = "answers", outcome = () => "accepted", overrides = {} } = options;
  let atUpstream = 0;
  const raw = await startRawUpstream((socket) => {
    atUpstream += 1;
    socket.write(upstreams[upstream]);
  });
  cleanup(() => raw.close());
  const { authenticator, asked, decide } = createTokenCheck(when, outcome);
  const tls = withTls({ drain: { delayMs: 0, timeoutMs: 80 }, ...overrides });
  const { ca } = tls;
  const gateway = await startTestGateway({
    upstreamUrl: raw.url,
    authenticator,
    overrides: { drain: { delayMs: 0, timeoutMs: 80 }, ...overrides, ...carrier.overrides(tls) },
  });
  cleanup(() => gateway.close());
  return {
    gateway,
    atUpstream: () => atUpstream,
    asked,
    decide,
    send: () => carrier.send(gateway, cleanup, ca),
  };
}

const linesOf = ({ gateway }: Stage) => gateway.logLines.filter(({ msg }) => msg === "request");

/** It is over: told of once now, and once still when the gateway has ended. `outcome`: what the limiter said. */
async function expectOnce(stage: Stage, { source }: Carrier, expected: object, outcome = "admitted"): Promise<void> {
  const { gateway } = stage;
  await eventually("the exchange has ended", () => linesOf(stage).length > 0);
  const counter = source === "proxy" ? "headgate_requests_total" : "headgate_ext_auth_checks_total";
  // Read once, because that takes as long as the rest of a test.
  const metrics = await (await fetch(`${gateway.adminUrl}/metrics`)).text();
  expect(sumsOf(metrics, counter, "headgate_decisions_total")).toEqual([1, 1]);
  expect(linesOf(stage)).toMatchObject([{ source, decision: outcome, ...expected }]);
  await gateway.close();
  expect(linesOf(stage)).toHaveLength(1);
}

/**
 * The client leaves, and the gateway has seen it. Does not wait where the exchange has ended before: `expectOnce` looks
 * again when the gateway, and with it each connection, has ended.
 */
async function leave(sent: Sent): Promise<void> {
  sent.leave();
  await sent.answered;
  expect(exchanges).toHaveLength(1);
  await eventually("the gateway knows", () => exchanges.every(({ isEnded, transport }) => isEnded || transport.isGone));
}

const portClosed = ({ gateway }: Stage): Promise<void> =>
  eventually("no connection is accepted any more", () => isRefused(gateway.traffic.port));

function isRefused(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1");
    socket.once("error", () => resolve(true));
    socket.once("connect", () => {
      socket.destroy();
      resolve(false);
    });
  });
}

const internalErrors = ({ gateway }: Stage): number =>
  gateway.logLines.filter(({ msg }) => msg === "internal error").length;

/**
 * Tries something with a verdict at once and with one later. `npm test` tries one of the two: the other one with the next thing
 * of the same carrier, and with the same thing of the next carrier.
 */
function eachWhen(carrier: Carrier): (name: string, run: (when: When) => Promise<void>) => void {
  let turn = carriers.indexOf(carrier);
  return (name, run) => {
    const [first, other] = turn % 2 === 0 ? whens : whens.toReversed();
    turn += 1;
    test.each([first as When, ...inFull([other as When])])(`a verdict %s: ${name}`, run);
  };
}

describe.each(carriers)("$name", (carrier) => {
  const testEach = eachWhen(carrier);

  testEach("is answered", async (when) => {
    const stage = await stageOf(carrier, when);
    const sent = stage.send();
    await eventually("the token is checked", () => stage.asked() === 1);
    stage.decide();
    expect(await sent.answered).toBe(200);
    await expectOnce(stage, carrier, { status: 200, complete: true, problem: null });
  });

  testEach("a step throws", async (when) => {
    const outcome = (): AuthOutcome => {
      throw new Error("a bug");
    };
    const stage = await stageOf(carrier, when, { outcome });
    const sent = stage.send();
    await eventually("the token is checked", () => stage.asked() === 1);
    stage.decide();
    expect(await sent.answered).toBe(carrier.name === "ext-auth gRPC" ? null : 500);
    // The verdict is lost, so what is told of the quota is what it is now.
    if (carrier.source === "ext-auth") {
      expect(await metric(stage.gateway, 'headgate_ext_auth_checks_total{outcome="internal"}')).toBe(1);
    }
    await expectOnce(stage, carrier, { status: 500, problem: "internal" }, "observed");
    expect(internalErrors(stage)).toBe(1);
  });

  test("a verdict later: the client leaves before it", async () => {
    const stage = await stageOf(carrier, "later");
    const sent = stage.send();
    await eventually("the token is checked", () => stage.asked() === 1);
    await leave(sent);
    stage.decide();
    await expectOnce(stage, carrier, { status: 0, complete: false, remaining: 99 });
    expect(stage.atUpstream()).toBe(0);
  });

  test("a verdict later: the drain's time is over before it", async () => {
    const stage = await stageOf(carrier, "later");
    const sent = stage.send();
    await eventually("the token is checked", () => stage.asked() === 1);
    await stage.gateway.close();
    // Before anything else can run: the line is there when the drain has ended.
    expect(linesOf(stage)).toMatchObject([{ complete: false }]);
    stage.decide();
    expect(await sent.answered).toBeNull();
    expect(linesOf(stage)).toHaveLength(1);
  });

  test("the client leaves after its answer", async () => {
    const stage = await stageOf(carrier, "at once");
    const sent = stage.send();
    expect(await sent.answered).toBe(200);
    await leave(sent);
    await expectOnce(stage, carrier, { status: 200, complete: true });
  });
});

// An ingress has its answer with the verdict: nothing of it can be under way between the two, nor wait for an upstream.
describe.each(carriers.filter(({ forwards }) => forwards))("$name, forwarded", (carrier) => {
  const testEach = eachWhen(carrier);
  const forwarded = async (when: When, options: Options): Promise<{ stage: Stage; sent: Sent }> => {
    const stage = await stageOf(carrier, when, options);
    const sent = stage.send();
    await eventually("the token is checked", () => stage.asked() === 1);
    stage.decide();
    await eventually("it is at the upstream", () => stage.atUpstream() === 1);
    return { stage, sent };
  };

  testEach("the client leaves while the upstream is waited for", async (when) => {
    const { stage, sent } = await forwarded(when, { upstream: "holds" });
    await leave(sent);
    await expectOnce(stage, carrier, { status: 0, complete: false, remaining: 99 });
  });

  testEach("the client leaves in the middle of its answer", async (when) => {
    const { stage, sent } = await forwarded(when, { upstream: "begins" });
    await sent.hasHead;
    await leave(sent);
    await expectOnce(stage, carrier, { status: 200, complete: false, remaining: 99 });
  });

  testEach("the drain's time is over while the upstream is waited for", async (when) => {
    const { stage, sent } = await forwarded(when, { upstream: "holds" });
    await stage.gateway.close();
    expect(linesOf(stage)).toMatchObject([{ status: 0, complete: false, decision: "admitted", remaining: 99 }]);
    expect(await sent.answered).toBeNull();
    expect(linesOf(stage)).toHaveLength(1);
  });

  testEach("the client leaves while the drain waits for its answer", async (when) => {
    const { stage, sent } = await forwarded(when, {
      upstream: "holds",
      overrides: { drain: { delayMs: 0, timeoutMs: 5_000 } },
    });
    const drained = stage.gateway.close();
    await portClosed(stage);
    sent.leave();
    await drained;
    // Before anything else can run: the line is there when the drain has ended.
    expect(linesOf(stage)).toMatchObject([{ status: 0, complete: false, decision: "admitted", remaining: 99 }]);
  });

  testEach("the drain's time is over in the middle of the answer", async (when) => {
    const { stage, sent } = await forwarded(when, { upstream: "begins" });
    await sent.hasHead;
    await stage.gateway.close();
    expect(linesOf(stage)).toMatchObject([{ status: 200, complete: false, decision: "admitted", remaining: 99 }]);
  });

  testEach("the upstream's time is over", async (when) => {
    const responseTimeoutMs = 100;
    const { stage, sent } = await forwarded(when, {
      upstream: "holds",
      overrides: { upstream: { responseTimeoutMs } },
    });
    expect(await sent.answered).toBe(504);
    await expectOnce(stage, carrier, { status: 504, complete: true, problem: "upstream_timeout" });
  });

  testEach("the upstream's time is over in the middle of the answer", async (when) => {
    const bodyTimeoutMs = 100;
    const { stage } = await forwarded(when, { upstream: "begins", overrides: { upstream: { bodyTimeoutMs } } });
    await expectOnce(stage, carrier, { status: 200, complete: false });
  });
});
