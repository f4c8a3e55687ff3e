// A table under one limit and one window, as the tests of the window ask it.
import { SlidingWindow } from "../../src/core/sliding-window.ts";
import { type TableStats, WindowTable } from "../../src/limits/window-table.ts";

export interface WindowLimit {
  readonly limit: number;
  readonly windowMs: number;
  readonly maxClients: number;
  /** What one request spends; 1 by default. */
  readonly units?: number;
}

export interface Answer {
  readonly outcome: "admitted" | "throttled" | "observed";
  readonly remaining: number;
  readonly resetMs: number;
}

export class LimitedTable {
  readonly policy: WindowLimit;
  readonly table: WindowTable<SlidingWindow>;

  constructor(policy: WindowLimit) {
    this.policy = policy;
    this.table = new WindowTable(policy.maxClients, () => new SlidingWindow());
  }

  acquire(client: string, nowMs: number): Answer {
    const { limit, windowMs, units = 1 } = this.policy;
    const isAdmitted = this.table.take(client, limit, units, windowMs, nowMs);
    const { remaining, resetMs } = this.table;
    return { outcome: isAdmitted ? "admitted" : "throttled", remaining, resetMs };
  }

  peek(client: string, nowMs: number): Answer {
    const { limit, windowMs } = this.policy;
    this.table.peek(client, limit, windowMs, nowMs);
    const { remaining, resetMs } = this.table;
    return { outcome: "observed", remaining, resetMs };
  }

  stats(): TableStats {
    return this.table.stats();
  }
}

/** The window of one client. */
export class OneWindow {
  readonly #table: LimitedTable;

  constructor(policy: WindowLimit) {
    this.#table = new LimitedTable(policy);
  }

  take(nowMs: number): Answer {
    return this.#table.acquire("client", nowMs);
  }

  peek(nowMs: number): Answer {
    return this.#table.peek("client", nowMs);
  }
}
