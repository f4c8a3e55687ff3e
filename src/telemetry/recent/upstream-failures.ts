// What failed at the upstream in the last minutes: how often, why and at which address. Those who look after a failing upstream need
// both, and a state alone hides that every second request fails.
import { type UpstreamErrorReason, upstreamErrorReasons } from "../../core/upstream.ts";

/** Requests that failed in the same way. */
export interface FailedRequests {
  readonly reason: UpstreamErrorReason;
  /** As in a URL; null if none was reached, or those of too many addresses. */
  readonly address: string | null;
  readonly count: number;
}

/** So many are told one by one: more than an upstream has addresses that fail in several ways. */
const maxNamed = 64;

/** Requests that failed in the same way, in each step. */
interface FailedInSteps extends Omit<FailedRequests, "count"> {
  /** The newest first. The first step has not ended. */
  counts: number[];
}

/** Adds up the requests of the last steps by reason and address. */
export class FailureCounts {
  readonly #failures = new Map<string, FailedInSteps>();
  readonly #steps: number;

  constructor(steps = 1) {
    this.#steps = steps;
  }

  /** What V8 takes for the most failures that are told one by one: a number in each step, and the texts. */
  static maxBytes(steps: number): number {
    return (maxNamed + upstreamErrorReasons.length) * (8 * steps + 256);
  }

  get all(): readonly FailedRequests[] {
    return Array.from(this.#failures.values(), ({ reason, address, counts }) => {
      return { reason, address, count: counts.reduce((sum, count) => sum + count, 0) };
    });
  }

  add({ reason, address, count }: FailedRequests): void {
    const name = `${reason} ${address}`;
    const known = this.#failures.get(name);
    if (known !== undefined) known.counts[0] = (known.counts[0] as number) + count;
    else if (address !== null && this.#failures.size >= maxNamed) this.add({ reason, address: null, count });
    else this.#failures.set(name, { reason, address, counts: [count] });
  }

  /** The first step has ended, `gaps` steps after the one before it. Forgets the failures that are in no step any more. */
  endStep(gaps: number): void {
    for (const [name, failed] of this.#failures) {
      const [first = 0, ...others] = failed.counts;
      failed.counts = [0, first, ...new Array<number>(gaps).fill(0), ...others].slice(0, this.#steps);
      if (failed.counts.every((count) => count === 0)) this.#failures.delete(name);
    }
  }
}
