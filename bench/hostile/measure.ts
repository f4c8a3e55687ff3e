// Measures one attack: what it costs the gateway in CPU and memory, and another client in time. The longest turn is
// measured in a run of its own, because watching the turns costs CPU itself.
import { setTimeout as sleep } from "node:timers/promises";
import type { Attack, Counters } from "./attack.ts";
import { attackNamed } from "./attacks.ts";
import {
  forgetPeak,
  type Gateway,
  type GatewayPlace,
  memoryOf,
  startGateway,
  threadsCpuUs,
} from "./gateway-process.ts";
import { costOf, type Ordinary } from "./ordinary.ts";
import { endOthers, othersOrder, readOthers } from "./others.ts";
import type { OthersReply } from "./others-process.ts";
import { type Bench, run, untilQuiet } from "./run.ts";
import type { TurnFigures } from "./turn-watch.ts";

export interface Figures extends Counters {
  readonly attack: Attack;
  readonly cpuMs: number;
  /** CPU time divided by that of ordinary requests with as many bytes. */
  readonly ratio: number;
  /** CPU of one request, without what its connection and the bytes of its response cost. */
  readonly requestMs: number;
  readonly memory: Memory;
  readonly turn: Turn;
  readonly alone: OthersReply;
  readonly beside: OthersReply;
}

/** The longest turn of the event loop, and what it did. */
export interface Turn {
  readonly ms: number;
  readonly step: string;
  /** All turns of the longest iteration. */
  readonly iterationMs: number;
}

export interface Memory {
  readonly restBytes: number;
  readonly peakBytes: number;
  /** When it was back, or after ten seconds. */
  readonly laterBytes: number;
}

export const memoryDeadlineMs = 10_000;
/** A process that has worked keeps more memory than one that has not. */
export const memoryMargin = 64 * 1024 * 1024;

const warmSeconds = 0.5;
const aloneSeconds = 0.5;

export async function measure(
  bench: Bench,
  place: GatewayPlace,
  attack: Attack,
  ordinary: Ordinary,
): Promise<{ readonly figures: Omit<Figures, "memory" | "turn">; readonly memory: Promise<Memory> }> {
  const gateway = await startGateway(place, attack);
  const { pid } = gateway.child;
  try {
    await bench.others.ask(othersOrder(gateway.ports, attack, { isWarmUp: true }));
    await sleep(warmSeconds * 1000);
    await bench.others.ask(othersOrder(gateway.ports, attack));
    await untilQuiet(pid);
    await bench.others.ask(readOthers);
    const before = threadsCpuUs(pid);
    await sleep(aloneSeconds * 1000);
    const aloneUs = threadsCpuUs(pid) - before;
    const alone = await bench.others.ask<OthersReply>(readOthers);
    const restBytes = memoryOf(pid).nowBytes;
    forgetPeak(pid);
    const attackedFrom = threadsCpuUs(pid);
    const { counters, beside } = await runBesideOthers(bench, gateway, attack);
    const totalUs = threadsCpuUs(pid) - attackedFrom;
    const { peakBytes } = memoryOf(pid);
    const otherUs = aloneUs / Math.max(1, countOf(alone));
    const cpuMs = Math.max(0, totalUs - otherUs * countOf(beside)) / 1000;
    const ratio = cpuMs / costOf(counters, ordinary);
    const ordinaryUs = counters.answered * ordinary.answerByteUs + counters.connections * ordinary.connectionUs;
    const requestMs = (cpuMs - ordinaryUs / 1000) / counters.requests;
    return {
      figures: { attack, ...counters, cpuMs, ratio, requestMs, alone, beside },
      memory: settledMemory(gateway, { restBytes, peakBytes }),
    };
  } catch (error) {
    await gateway.child.stop();
    throw error;
  }
}

/** Runs the attack beside the other clients. Their failures count from the start, their latencies after `openingSeconds`. */
async function runBesideOthers(
  bench: Bench,
  gateway: Gateway,
  attack: Attack,
): Promise<{ readonly counters: Counters; readonly beside: OthersReply }> {
  const { openingSeconds = 0 } = attack;
  const running = run({ ...bench, seconds: bench.seconds + openingSeconds }, gateway, attack);
  // A failure is thrown by the await below.
  running.catch(() => {});
  await sleep(openingSeconds * 1000);
  const opening = openingSeconds === 0 ? null : await bench.others.ask<OthersReply>(readOthers);
  const counters = await running;
  const { latenciesMs, failed, answered } = await bench.others.ask<OthersReply>(endOthers);
  const beside = {
    latenciesMs,
    failed: failed + (opening?.failed ?? 0),
    answered: answered + (opening?.answered ?? 0),
  };
  return { counters, beside };
}

const countOf = ({ answered, failed }: OthersReply): number => answered + failed;

/** Several of them may be measured at once: a turn is measured in CPU time. */
export async function longestTurn(bench: Bench, place: GatewayPlace, attack: Attack): Promise<Turn> {
  const gateway = await startGateway(place, attack, { watchesTurns: true });
  try {
    await run({ ...bench, seconds: warmSeconds }, gateway, attackNamed(warmUpFor(attack)));
    await gateway.child.ask<TurnFigures>({ read: true });
    await run(bench, gateway, attack);
    const figures = await gateway.child.ask<TurnFigures>({ read: true });
    const { longestTurnUs, longestTurnStep, longestIterationUs } = figures;
    return { ms: longestTurnUs / 1000, step: longestTurnStep, iterationMs: longestIterationUs / 1000 };
  } finally {
    await gateway.child.stop();
  }
}

/** Returns the name of ordinary traffic of the same carrier, where it has code of its own. */
function warmUpFor({ carrier }: Attack): string {
  if (carrier === "grpc") return "ordinary-grpc-check";
  return `ordinary-${["tls", "http2", "proxy"].includes(carrier) ? `${carrier}-` : ""}warm-up`;
}

/** Waits until the memory is back, while the next attack may already be measured. */
async function settledMemory(
  { child }: Gateway,
  { restBytes, peakBytes }: Omit<Memory, "laterBytes">,
): Promise<Memory> {
  const deadlineMs = performance.now() + memoryDeadlineMs;
  const now = (): number => memoryOf(child.pid).nowBytes;
  try {
    while (now() > restBytes + memoryMargin && performance.now() < deadlineMs) await sleep(250);
    return { restBytes, peakBytes, laterBytes: now() };
  } finally {
    await child.stop();
  }
}
