// What a thread has done with the store, as numbers.
import { type CallResult, callResults, type OnFailure } from "../../core/shared-store.ts";

export class StoreCounts {
  readonly calls: Record<CallResult, number> = Object.fromEntries(callResults.map((result) => [result, 0])) as Record<
    CallResult,
    number
  >;
  readonly units = { granted: 0, spent: 0, returned: 0 };
  readonly waited = { answered: 0, overdue: 0 };
  readonly alone: Record<OnFailure, number> = { local: 0, open: 0, closed: 0 };
  items = 0;
  late = 0;
  refusedFromMemory = 0;
  forgot = 0;
  clockSteps = 0;
  coarse = 0;
}
