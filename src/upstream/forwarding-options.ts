// The options of forwarding, which all requests share.
import type { ForwardingHeader } from "../core/client-address.ts";
import type { UpstreamFault } from "../core/upstream.ts";
import type { BodyOptions } from "./request-body.ts";
import type { Tunnels } from "./tunnels.ts";
import type { UpstreamConnections } from "./upstream-connections.ts";
import type { WaitingBodies } from "./waiting-bodies.ts";

export interface ForwardingOptions extends BodyOptions {
  readonly waitingBodies: WaitingBodies;
  readonly connections: UpstreamConnections;
  readonly tunnels: Tunnels;
  /** The header in which trusted proxies name the client; the other one is not passed on. */
  readonly forwardingHeader: ForwardingHeader;
  /** Called once for each request that the upstream failed. */
  readonly onError: (fault: UpstreamFault) => void;
  /** `nowMs`: the instant of the answer. */
  readonly onAnswer: (nowMs: number) => void;
}
