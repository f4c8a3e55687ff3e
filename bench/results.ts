// What a run of the bench has found.
import type { Allocations } from "./allocations/allocations.ts";
import type { AskedResult } from "./asked.ts";
import type { DecisionResult } from "./decisions.ts";
import type { IdleResult } from "./idle.ts";
import type { ReuseResult } from "./reuse.ts";
import type { AddedLatency, Footprint, Measurement, Tail } from "./runs.ts";

export interface Results {
  readonly versions: { readonly name: string; readonly version: string; readonly lacks: string }[];
  readonly settings: {
    readonly rounds: number;
    readonly seconds: number;
    readonly perSecond: number;
    readonly command: string;
    /** Of the run, as 2026-01-31. */
    readonly date: string;
  };
  readonly measurements: Measurement[];
  readonly latencies: AddedLatency[];
  readonly tails: Tail[];
  readonly reuse: ReuseResult[];
  readonly footprints: Footprint[];
  readonly idle: IdleResult[];
  readonly decisions: DecisionResult[];
  readonly asked: AskedResult[];
  readonly allocations: Allocations[];
  /** How long the run took, and whether the machine was quiet. */
  readonly remarks: string[];
}
