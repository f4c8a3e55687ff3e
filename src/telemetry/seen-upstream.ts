// The upstream's state as the traffic of this thread shows it: the result of its last attempt, and when that was, so that the
// last attempt of several threads can be found.
import type { UpstreamErrorReason, UpstreamHealth } from "../core/upstream.ts";

/** `atMs`: the instant of the last attempt, by the monotonic clock that all threads share; -Infinity before the first. */
export interface SeenHealth extends UpstreamHealth {
  readonly atMs: number;
}

const up: UpstreamHealth = { state: "up", reason: null };
const unknown: UpstreamHealth = { state: "unknown", reason: null };
export const neverSeen: SeenHealth = { ...unknown, atMs: Number.NEGATIVE_INFINITY };

export class SeenUpstream {
  health = unknown;
  #atMs = neverSeen.atMs;

  get seen(): SeenHealth {
    return { ...this.health, atMs: this.#atMs };
  }

  answered(nowMs: number): void {
    this.health = up;
    this.#atMs = nowMs;
  }

  failed(reason: UpstreamErrorReason, nowMs: number): void {
    // Running out of connections says nothing about whether the upstream can be reached.
    if (reason === "overloaded") return;
    this.health = { state: "down", reason };
    this.#atMs = nowMs;
  }

  /** A reload has replaced the upstream. */
  replaced(): void {
    this.health = unknown;
    this.#atMs = neverSeen.atMs;
  }
}
