// The options of forwarding, which all requests share.
import type { ClientBytes } from "../core/client-share.ts";
import type { UpstreamFault } from "../core/upstream.ts";
import type { BodyOptions } from "./request-body.ts";
import type { RequestFieldsOptions } from "./request-fields.ts";
import type { Tunnels } from "./tunnels.ts";
import type { UpstreamConnections } from "./upstream-connections.ts";

/**
 * Bounds the memory of bodies that wait for a connection to the upstream, in the whole process. By default, at most 256
 * requests wait. Together they use half of this if each of them keeps 64 KiB.
 */
export const maxWaitingBodyBytes = 32 * 1024 * 1024;

export interface ForwardingOptions extends BodyOptions, RequestFieldsOptions {
  /** The memory of bodies that wait for a connection. A body over a bound is not refused: it asks for a connection at once. */
  readonly waitingBodies: ClientBytes;
  readonly connections: UpstreamConnections;
  readonly tunnels: Tunnels;
  /** Called once for each request that the upstream failed. */
  readonly onError: (fault: UpstreamFault) => void;
  /** `nowMs`: the instant of the answer. */
  readonly onAnswer: (nowMs: number) => void;
}
