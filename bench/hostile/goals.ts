// The goals, and which of them an attack breaks.
import type { Figures } from "./measure.ts";
import { memoryMargin } from "./measure.ts";
import type { OthersReply } from "./others-process.ts";

export const goals = {
  ratio: 100,
  /** Below this CPU time per second, the ratio is not checked, because it would be noise. */
  noiseMsPerSecond: 20,
  requestBytes: 16 * 1024,
  requestMs: 5,
  p99: 3,
  turnMs: 10,
} as const;

/** `alone` has the times of all runs with the same kind of other clients, because one run has too few. */
export function broken(figures: Figures, alone: OthersReply, seconds: number): string[] {
  const { attack, cpuMs, ratio, requestMs, requests, bytes, memory, turn, beside } = figures;
  const flaws: string[] = [];
  if (ratio > goals.ratio && cpuMs > goals.noiseMsPerSecond * seconds) flaws.push("ratio");
  const isSmall = requests > 0 && bytes / requests <= goals.requestBytes;
  if (isSmall && requestMs > goals.requestMs) flaws.push("request");
  if (quantile(beside, 0.99) > goals.p99 * quantile(alone, 0.99)) flaws.push("p99");
  if (quantile(beside, 1) > (attack.longestWaitMs ?? Number.POSITIVE_INFINITY)) flaws.push("wait");
  if (beside.failed > 0) flaws.push("lost");
  if (memory.laterBytes > memory.restBytes + memoryMargin) flaws.push("memory");
  if (turn.ms > goals.turnMs) flaws.push("turn");
  return flaws;
}

/** In milliseconds; NaN if there are none. */
export function quantile({ latenciesMs }: OthersReply, share: number): number {
  return latenciesMs[Math.min(latenciesMs.length - 1, Math.floor(latenciesMs.length * share))] ?? Number.NaN;
}

export function together(replies: readonly OthersReply[]): OthersReply {
  return {
    latenciesMs: replies.flatMap(({ latenciesMs }) => latenciesMs).sort((a, b) => a - b),
    failed: replies.reduce((sum, { failed }) => sum + failed, 0),
    answered: replies.reduce((sum, { answered }) => sum + answered, 0),
  };
}
