// A clock that a test moves. The wall can be stepped apart from the monotonic reading, as a machine's can.
import type { Clock } from "../../src/core/clock.ts";

export function clockOf(monotonicMs: () => number, wallMs: () => number): Clock {
  return { monotonicMs, wallMs, wallMsAt: wallMs };
}

export class FakeClock implements Clock {
  nowMs = 5_000_000;
  wallOffsetMs = 1_700_000_000_000 - 5_000_000;

  // Bound, because the gateway passes the reading around as a function.
  readonly monotonicMs = (): number => this.nowMs;
  readonly wallMs = (): number => this.nowMs + this.wallOffsetMs;

  readonly wallMsAt = (): number => this.wallMs();

  advance(ms: number): void {
    this.nowMs += ms;
  }

  stepWall(ms: number): void {
    this.wallOffsetMs += ms;
  }
}
