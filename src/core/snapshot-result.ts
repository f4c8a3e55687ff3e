// How the writing of a snapshot of the counters has ended: for the log and the metrics.

export type SnapshotResult =
  | { readonly ok: true; readonly bytes: number; readonly records: number }
  /** The file from before is as it was. `code`: of the system, or the name of the error. */
  | { readonly ok: false; readonly code: string };
