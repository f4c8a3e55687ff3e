// The options of forwarding, which all requests share.
import type { UpstreamFault } from "../core/upstream.ts";
import type { BodyOptions } from "./request-body.ts";
import type { RequestFieldsOptions } from "./request-fields.ts";
import type { Tunnels } from "./tunnels.ts";
import type { UpstreamConnections } from "./upstream-connections.ts";
import type { WaitingBodies } from "./waiting-bodies.ts";

export interface ForwardingOptions extends BodyOptions, RequestFieldsOptions {
  readonly waitingBodies: WaitingBodies;
  readonly connections: UpstreamConnections;
  readonly tunnels: Tunnels;
  /** Called once for each request that the upstream failed. */
  readonly onError: (fault: UpstreamFault) => void;
  /** `nowMs`: the instant of the answer. */
  readonly onAnswer: (nowMs: number) => void;
}
