// A log whose lines are kept, and a clock that goes when it is told.
import type { Clock } from "../../src/core/clock.ts";
import type { LogLevel, LogTime } from "../../src/core/settings.ts";
import { createLog } from "../../src/telemetry/log.ts";

export interface Line {
  readonly msg: string;
  readonly time: number | string;
  readonly client?: string | null;
  readonly omitted?: number;
  readonly path?: string;
  readonly route?: string | null;
  readonly userAgent?: string | null;
}

export class FakeClock implements Clock {
  nowMs = 5_000;
  monotonicMs(): number {
    return this.nowMs;
  }
  wallMs(): number {
    return 1_700_000_000_000 + this.nowMs;
  }

  wallMsAt(): number {
    return this.wallMs();
  }
}

export function keptLog(level: LogLevel = "info", clock: Clock = new FakeClock(), time: LogTime = "unix") {
  const written: string[] = [];
  const destination = { write: (line: string) => written.push(line), flush: (done?: () => void) => done?.() };
  const log = createLog({ level, time, clock, destination });
  return { log, written, lines: () => written.map((line) => JSON.parse(line) as Line) };
}
