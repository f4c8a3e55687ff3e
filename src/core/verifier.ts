// Who may pass, once the quota has been charged. One verifier for each `auth.mode`; a local one answers at once.
import type { BearerCredential } from "./bearer.ts";
import type { AuthOutcome } from "./exchange.ts";

export interface Verifier {
  /** `off` answers `skipped`; the others never do. */
  verify(credential: BearerCredential): AuthOutcome | Promise<AuthOutcome>;
  /** Stops whatever watches or renews. */
  close(): void;
}
