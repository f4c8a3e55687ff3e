// What the admin listener tells an orchestrator. The upstream's state is shown and never decides whether this process
// is ready: taking every gateway out of rotation would turn an upstream's failure into an outage of the 502s as well.
import type { UpstreamHealth } from "./upstream.ts";

export interface Health {
  /** `starting` until the traffic listener is open, `draining` from the signal to stop. */
  readonly status: "starting" | "ready" | "draining";
  readonly upstream: UpstreamHealth;
}
