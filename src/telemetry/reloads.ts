// Counts and logs reloads.
import type { Clock } from "../core/clock.ts";
import type { ReloadCause, ReloadResult } from "../core/reload.ts";
import type { Logger } from "./log.ts";
import type { Metrics } from "./metrics.ts";
import { logReload } from "./reload-log.ts";

export interface Reloads {
  reloaded(result: ReloadResult, cause: ReloadCause): void;
}

/** The first configuration has just been loaded. */
export function createReloads(
  { log, clock }: { readonly log: Logger; readonly clock: Clock },
  metrics: Metrics,
): Reloads {
  metrics.configLoaded(clock.wallMs());
  return {
    reloaded(result, cause) {
      metrics.reloaded(result);
      if (result.isConfigRead && result.errors.length === 0) metrics.configLoaded(clock.wallMs());
      logReload(log, result, cause);
    },
  };
}
