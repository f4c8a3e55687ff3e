// However a request comes, and whenever the limiter decides: it is answered with its fields or not at all, its exchange
// ends once, and what was taken for it is given back. Through the real gateway; only the limiter's answers are others.
import { describe, expect, test } from "vitest";
import type { Policy } from "../../src/core/policy.ts";
import { useCleanup } from "../support/cleanup.ts";
import { sixFields } from "../support/contract-fields.ts";
import { eventually } from "../support/eventually.ts";
import { startTestGateway, type TestGateway } from "../support/gateway.ts";
import { slidingPolicy } from "../support/policy.ts";
import { useTls } from "../support/tls-listener.ts";
import { startRawUpstream } from "../support/upstream.ts";
import { type Carrier, carriers, rateLimitCarrier, type Sent } from "./carriers.ts";
import { type Answer, answers, useLateLimiter } from "./late-limiter.ts";
import { upstreams, whens } from "./verdicts.ts";

const cleanup = useCleanup();
const withTls = useTls();
const limiter = useLateLimiter();

/** A slot that is not given back refuses the next request. */
const policies: readonly Policy[] = [
  slidingPolicy({ limit: 100, windowMs: 60_000 }),
  { ...slidingPolicy({ limit: 1, windowMs: 0 }), name: "at-once", rate: { kind: "concurrency" } },
];

interface Stage {
  readonly gateway: TestGateway;
  send(): Sent;
}

async function stageOf(carrier: Carrier): Promise<Stage> {
  const upstream = await startRawUpstream((socket) => void socket.write(upstreams.answers));
  cleanup(() => upstream.close());
  const tls = withTls({});
  const gateway = await startTestGateway({
    upstreamUrl: upstream.url,
    overrides: { ...carrier.overrides(tls), policies, drain: { delayMs: 0, timeoutMs: 80 } },
  });
  cleanup(() => gateway.close());
  return { gateway, send: () => carrier.send(gateway, cleanup, tls.ca) };
}

const linesOf = ({ gateway }: Stage) => gateway.logLines.filter(({ msg }) => msg === "request");
const failures = ({ gateway }: Stage) => gateway.logLines.filter(({ msg }) => msg === "internal error");

const told: Readonly<Record<Answer, { status: number; problem: string | null; decision: string }>> = {
  admitted: { status: 200, problem: null, decision: "admitted" },
  throttled: { status: 429, problem: "throttled", decision: "throttled" },
  unavailable: { status: 503, problem: "store_unavailable", decision: "unavailable" },
  fails: { status: 500, problem: "internal", decision: "observed" },
};

/** The status that the carrier itself has. A call of gRPC succeeds, whatever it says. */
function statusFor({ name, source }: Carrier, answer: Answer): number | null {
  const isCall = source === "ext-auth" && !name.startsWith("ext-auth HTTP");
  if (isCall) return answer === "fails" ? null : 200;
  return name.startsWith("ext-auth HTTP") && answer === "unavailable" ? 403 : told[answer].status;
}

function expectFields(carrier: Carrier, answer: Answer, headers: readonly string[]): void {
  for (const name of sixFields.map((each) => each.toLowerCase())) {
    expect([answer, headers.filter((each) => each === name)]).toEqual([answer, [name]]);
  }
  // Envoy makes a 429 of whatever is over the limit.
  const isTold = answer === "throttled" || (answer === "unavailable" && carrier === rateLimitCarrier);
  expect([answer, headers.includes("retry-after")]).toEqual([answer, isTold]);
}

describe.each([...carriers, rateLimitCarrier])("$name", (carrier) => {
  test.each(whens)("every answer has its fields, %s", async (when) => {
    const stage = await stageOf(carrier);
    for (const [i, answer] of answers.entries()) {
      limiter.says(answer, when);
      const sent = stage.send();
      await eventually("the limiter is asked", () => limiter.asked() === 1);
      limiter.decide();
      expect([answer, await sent.answered]).toEqual([answer, statusFor(carrier, answer)]);
      await eventually("the exchange has ended", () => linesOf(stage).length === i + 1);
      expect(linesOf(stage).at(-1)).toMatchObject({ ...told[answer], complete: true });
      if (statusFor(carrier, answer) !== null) expectFields(carrier, answer, await sent.headers);
    }
    expect(failures(stage)).toHaveLength(1);
    expect(limiter.held()).toEqual({ now: 0, ever: carrier.forwards ? 1 : 0 });
  });

  test("the client leaves before the decision: it is made all the same, and gives back what it took", async () => {
    const stage = await stageOf(carrier);
    for (const answer of answers) {
      limiter.says(answer, "later");
      const sent = stage.send();
      await eventually("the limiter is asked", () => limiter.asked() === 1);
      sent.leave();
      await sent.answered;
      const before = linesOf(stage).length;
      limiter.decide();
      await eventually("the exchange has ended", () => linesOf(stage).length === before + 1);
      expect(linesOf(stage).at(-1)).toMatchObject({ decision: told[answer].decision });
    }
    limiter.says("admitted", "at once");
    const before = linesOf(stage).length;
    expect(await stage.send().answered).toBe(200);
    // A head over HTTP/2 may come before the end of the stream.
    await eventually("the exchange has ended", () => linesOf(stage).length === before + 1);
    expect(limiter.held()).toEqual({ now: 0, ever: carrier.forwards ? 2 : 0 });
  });

  test("the drain does not wait for the decision, and what it takes afterwards is given back", async () => {
    const stage = await stageOf(carrier);
    limiter.says("admitted", "later");
    const sent = stage.send();
    await eventually("the limiter is asked", () => limiter.asked() === 1);
    await stage.gateway.close();
    expect(linesOf(stage)).toMatchObject([{ complete: false }]);
    limiter.decide();
    expect(await sent.answered).toBeNull();
    const expected = carrier.forwards ? 1 : 0;
    await eventually("the decision is made", () => limiter.held().ever === expected && limiter.held().now === 0);
    expect(linesOf(stage)).toHaveLength(1);
    expect(failures(stage)).toEqual([]);
  });
});
