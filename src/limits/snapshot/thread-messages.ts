// What the thread that owns the table and the thread that writes a snapshot tell each other.
import type { SnapshotDescription } from "./description.ts";

export interface WriterData {
  readonly path: string;
  /** A file beside it, which becomes it. */
  readonly temporary: string;
  /** The policies whose keys are written. */
  readonly slots: readonly WrittenSlot[];
}

export interface WrittenSlot {
  readonly slot: number;
  /** Null: a policy of the calendar. What is older than the window is left out. */
  readonly windowMs: number | null;
}

export type ToWriter =
  /** `tableMs`: when it was copied. */
  | { readonly kind: "shard"; readonly shard: Int32Array; readonly tableMs: number }
  | { readonly kind: "finish"; readonly description: SnapshotDescription };

export type FromWriter =
  /** A shard has been written. */
  | { readonly kind: "taken" }
  | ({ readonly kind: "written" } & WrittenSnapshot)
  /** `code`: of the system, or the name of the error. */
  | { readonly kind: "failed"; readonly code: string };

export interface WrittenSnapshot {
  readonly bytes: number;
  readonly records: number;
}
