// However a request comes, whenever its verdict is known and whatever happens to it then: its exchange ends once, is charged
// once, logged once and counted once. Through the real gateway and a real app; only the check of the token is made to wait or
// to fail.
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import type { AuthOutcome } from "../../src/core/authentication.ts";
import { Exchange } from "../../src/exchange/exchange.ts";
import { useCleanup } from "../support/cleanup.ts";
import { eventually } from "../support/eventually.ts";
import { sumsOf } from "../support/metrics.ts";
import { inFull } from "../support/runs.ts";
import { useTls } from "../support/tls-listener.ts";
import type { Sent } from "./carriers.ts";
import { type ExchangeStage, type ExchangeStageOptions, type StagedCarrier, stagedCarriers } from "./stage.ts";
import { createTokenCheck, type TokenCheck, type When, whens } from "./verdicts.ts";

const cleanup = useCleanup();
const tls = useTls();

/** Of the gateway or app of the test. */
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

interface Options extends Pick<ExchangeStageOptions, "upstream" | "drainMs" | "times"> {
  readonly outcome?: () => AuthOutcome;
}

/** A request whose token is checked. */
interface Checked extends ExchangeStage, Pick<TokenCheck, "decide"> {
  readonly sent: Sent;
}

async function check(carrier: StagedCarrier, when: When, options: Options = {}): Promise<Checked> {
  const { outcome = () => "accepted", ...rest } = options;
  const { authenticator, asked, decide } = createTokenCheck(when, outcome);
  const stage = await carrier.start(cleanup, { tls, authenticator, ...rest });
  const sent = stage.send();
  await eventually("the token is checked", () => asked() === 1);
  return { ...stage, decide, sent };
}

/** It is over: told of once now, and once still when the gateway has ended. `outcome`: what the limiter said. */
async function expectOnce(
  { lines, metrics, close }: ExchangeStage,
  { source }: StagedCarrier,
  expected: object,
  outcome = "admitted",
): Promise<void> {
  await eventually("the exchange has ended", () => lines().length > 0);
  const counter = source === "proxy" ? "headgate_requests_total" : "headgate_ext_auth_checks_total";
  // Read once, because that takes as long as the rest of a test.
  expect(sumsOf(await metrics(), counter, "headgate_decisions_total")).toEqual([1, 1]);
  expect(lines()).toMatchObject([{ source, decision: outcome, ...expected }]);
  await close();
  expect(lines()).toHaveLength(1);
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

/**
 * Tries something with a verdict at once and with one later. `npm test` tries one of the two: the other one with the next thing
 * of the same carrier, and with the same thing of the next carrier.
 */
function eachWhen(carrier: StagedCarrier): (name: string, run: (when: When) => Promise<void>) => void {
  let turn = stagedCarriers.indexOf(carrier);
  return (name, run) => {
    const [first, other] = turn % 2 === 0 ? whens : whens.toReversed();
    turn += 1;
    test.each([first as When, ...inFull([other as When])])(`a verdict %s: ${name}`, run);
  };
}

const charged = { decision: "admitted", remaining: 99 };

describe.each(stagedCarriers)("$name", (carrier) => {
  const testEach = eachWhen(carrier);

  testEach("is answered", async (when) => {
    const stage = await check(carrier, when);
    stage.decide();
    expect(await stage.sent.answered).toBe(200);
    await expectOnce(stage, carrier, { status: 200, complete: true, problem: null, ...charged });
    expect(stage.atUpstream()).toBe(carrier.forwards ? 1 : 0);
  });

  testEach("refuses", async (when) => {
    const stage = await check(carrier, when, { outcome: () => "invalid" });
    stage.decide();
    expect(await stage.sent.answered).toBe(carrier.name === "ext-auth gRPC" ? 200 : 401);
    await expectOnce(stage, carrier, { status: 401, complete: true, problem: "invalid_token", ...charged });
    expect(stage.atUpstream()).toBe(0);
  });

  testEach("a step throws", async (when) => {
    const outcome = (): AuthOutcome => {
      throw new Error("a bug");
    };
    const stage = await check(carrier, when, { outcome });
    stage.decide();
    expect(await stage.sent.answered).toBe(carrier.name === "ext-auth gRPC" ? null : 500);
    // The verdict is lost, so what is told of the quota is what it is now.
    if (carrier.source === "ext-auth") {
      expect(await stage.metrics()).toMatch(/^headgate_ext_auth_checks_total\{outcome="internal"\} 1$/m);
    }
    await expectOnce(stage, carrier, { status: 500, problem: "internal" }, "observed");
    expect(stage.failures()).toBe(1);
  });

  test("a verdict later: the client leaves before it", async () => {
    const stage = await check(carrier, "later");
    await leave(stage.sent);
    expect(stage.lines()).toEqual([]);
    stage.decide();
    await expectOnce(stage, carrier, { status: 0, complete: false, remaining: 99 });
    expect(stage.atUpstream()).toBe(0);
  });

  test("a verdict later: the drain's time is over before it", async () => {
    const stage = await check(carrier, "later");
    await stage.close();
    // Before anything else can run: the line is there when the drain has ended.
    expect(stage.lines()).toMatchObject([{ complete: false }]);
    stage.decide();
    expect(await stage.sent.answered).toBeNull();
    expect([stage.lines().length, stage.atUpstream()]).toEqual([1, 0]);
  });

  test("the client leaves after its answer", async () => {
    const stage = await check(carrier, "at once");
    expect(await stage.sent.answered).toBe(200);
    await leave(stage.sent);
    await expectOnce(stage, carrier, { status: 200, complete: true });
  });
});

// An ingress has its answer with the verdict: nothing of it can be under way between the two, nor wait for an upstream.
describe.each(stagedCarriers.filter(({ forwards }) => forwards))("$name, forwarded", (carrier) => {
  const testEach = eachWhen(carrier);
  const forwarded = async (when: When, options: Options): Promise<Checked> => {
    const stage = await check(carrier, when, options);
    stage.decide();
    await eventually("it is at the upstream", () => stage.atUpstream() === 1);
    return stage;
  };

  testEach("the client leaves while the upstream is waited for", async (when) => {
    const stage = await forwarded(when, { upstream: "holds" });
    await leave(stage.sent);
    await expectOnce(stage, carrier, { status: 0, complete: false, remaining: 99 });
  });

  testEach("the client leaves in the middle of its answer", async (when) => {
    const stage = await forwarded(when, { upstream: "begins" });
    await stage.sent.hasHead;
    await leave(stage.sent);
    await expectOnce(stage, carrier, { status: 200, complete: false, remaining: 99 });
  });

  testEach("the drain's time is over while the upstream is waited for", async (when) => {
    const stage = await forwarded(when, { upstream: "holds" });
    await stage.close();
    expect(stage.lines()).toMatchObject([{ status: 0, complete: false, ...charged }]);
    expect(await stage.sent.answered).toBeNull();
    expect(stage.lines()).toHaveLength(1);
  });

  testEach("the drain's time is over in the middle of the answer", async (when) => {
    const stage = await forwarded(when, { upstream: "begins" });
    await stage.sent.hasHead;
    await stage.close();
    expect(stage.lines()).toMatchObject([{ status: 200, complete: false, ...charged }]);
  });
});

describe.each(stagedCarriers.filter(({ forwards, drains }) => forwards && drains))("$name, draining", (carrier) => {
  eachWhen(carrier)("the client leaves while the drain waits for its answer", async (when) => {
    const stage = await check(carrier, when, { upstream: "holds", drainMs: 5_000 });
    stage.decide();
    await eventually("it is at the upstream", () => stage.atUpstream() === 1);
    const drained = stage.close();
    await stage.stopped();
    stage.sent.leave();
    await drained;
    // Before anything else can run: the line is there when the drain has ended.
    expect(stage.lines()).toMatchObject([{ status: 0, complete: false, ...charged }]);
  });
});

/** A handler of the app has no time of its own. */
const proxies = stagedCarriers.filter(({ forwards, name }) => forwards && name !== "the plugin");

describe.each(proxies)("$name, with an upstream whose time is over", (carrier) => {
  const testEach = eachWhen(carrier);

  testEach("before its answer", async (when) => {
    const stage = await check(carrier, when, { upstream: "holds", times: { responseTimeoutMs: 100 } });
    stage.decide();
    expect(await stage.sent.answered).toBe(504);
    await expectOnce(stage, carrier, { status: 504, complete: true, problem: "upstream_timeout", ...charged });
  });

  testEach("in the middle of it", async (when) => {
    const stage = await check(carrier, when, { upstream: "begins", times: { bodyTimeoutMs: 100 } });
    stage.decide();
    await expectOnce(stage, carrier, { status: 200, complete: false, ...charged });
  });
});
