// The health that the admin listener reports to an orchestrator. The upstream's state does not affect readiness:
// otherwise a failing upstream would take every gateway out of rotation, and clients would not even get a 502.
import type { SharedRulesHealth, StoreHealth } from "../core/store-link.ts";
import type { UpstreamHealth } from "../core/upstream.ts";

export interface Health {
  /** `starting` until the traffic listener is open, `draining` from the signal to stop. */
  readonly status: "starting" | "ready" | "draining";
  readonly upstream: UpstreamHealth;
  /** Null: the counters are not shared. Without the store, the gateway decides by itself, so that it stays ready. */
  readonly store: StoreHealth | null;
  /** Whether rules and forgiveness of other gateways are known; null: they are not shared. They do not affect readiness. */
  readonly rules: SharedRulesHealth | null;
  /** Null: no tokens are listed. `ending`: how many end within 14 days, or have ended. */
  readonly tokens: { readonly listed: number; readonly ending: number } | null;
}
