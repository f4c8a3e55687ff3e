// Makes the limiter from the settings.
import type { Clock } from "../core/clock.ts";
import type { Settings } from "../core/settings.ts";
import { PolicyLimiter } from "../limits/limiter.ts";
import { NoSlotError, type PolicySlot } from "../limits/policies.ts";
import type { Store } from "../limits/store/store.ts";
import type { ThreadCounters } from "./counters.ts";
import { NotPreparedError } from "./reloader.ts";

type LimiterSettings = Pick<Settings, "policies" | "enforcement" | "basePath" | "auth" | "fields">;

export interface LimiterParts {
  readonly clock: Clock;
  readonly counters: ThreadCounters;
  /** Those that another thread has chosen. Default: they are chosen here. */
  readonly slots?: readonly PolicySlot[] | undefined;
  /** Null, by default: the counters are not shared. */
  readonly store?: Store | null;
  /** False: the thread only keeps the table. Default: true. */
  readonly decides?: boolean;
}

/**
 * `previous`: the limiter before a reload, whose counters go on; null at the start. Throws a NotPreparedError if too many
 * policies were removed shortly before.
 */
export function createLimiter(
  settings: LimiterSettings,
  { clock, counters: { table, keyHash: hash }, slots, store = null, decides = true }: LimiterParts,
  previous: PolicyLimiter | null,
): PolicyLimiter {
  const { policies, ...options } = limiterSettings(settings);
  const chosen = slots === undefined ? {} : { slots };
  try {
    return new PolicyLimiter(policies, { ...options, ...chosen, clock, table, hash, store, decides, previous });
  } catch (error) {
    if (!(error instanceof NoSlotError)) throw error;
    const message = "too many policies were removed in the last minutes, reload again when their counters are cleared";
    throw new NotPreparedError(message, { cause: error });
  }
}

/** What the limiter depends on. */
export function limiterSettings({ policies, enforcement, basePath, auth, fields }: LimiterSettings) {
  const listAll = fields.includes("structured");
  return { policies, enforcement, basePath, tokensAreVerified: auth.mode === "tokens", listAll };
}
