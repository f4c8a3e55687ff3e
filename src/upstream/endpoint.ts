// One address of the upstream and what the connections to it have shown. After three failures in a row to reach it, it
// is ejected: not chosen for a second, then asked with one request; if that fails too, for twice as long, up to half a
// minute. One answer restores it. What a request meets once it has an answer says nothing about the address, and a reset
// in place of an answer only if nothing else has come for a while: one client's request may have brought it about.
import type { UpstreamErrorReason } from "../core/upstream.ts";

export interface EndpointEvents {
  /** A request that could not be connected to it is given to another one; `isNews`: the first since it answered last. */
  readonly onFailover: (address: string, reason: UpstreamErrorReason, code: string, isNews: boolean) => void;
  readonly onEjected: (address: string, reason: UpstreamErrorReason, backoffMs: number) => void;
  readonly onRestored: (address: string) => void;
  /** By the health check; `fault` is a status or a code. */
  readonly onUnhealthy: (address: string, fault: string) => void;
  readonly onHealthy: (address: string) => void;
}

export interface Address {
  /** An IP address, without brackets. */
  readonly host: string;
  readonly port: number;
}

/** A connection to an address, as the address knows it. */
export interface EndpointConnection {
  readonly endpoint: Endpoint;
  /** The request on it shows whether an ejected address is well again. */
  isProbe: boolean;
  readonly isClosed: boolean;
  abort(): void;
}

const failuresToEject = 3;
const checksToEject = 3;
const checksToRestore = 2;
const firstBackoffMs = 1_000;
const maxBackoffMs = 30_000;
/** An address that answered so lately is reached: what it resets is the request's doing. */
const answerHoldsMs = 5_000;

interface Ejection {
  readonly atMs: number;
  readonly untilMs: number;
  readonly backoffMs: number;
}

export class Endpoint {
  readonly host: string;
  readonly port: number;
  /** As in an URL. */
  readonly name: string;
  /** Requests on it, those whose connection is being opened included. */
  pending = 0;
  /** Connections without a request; the last one is used first. */
  readonly idle: EndpointConnection[] = [];
  /** Nothing leads here any more. */
  isGone = false;
  readonly #events: EndpointEvents;
  #failures = 0;
  #isRescueTold = false;
  #answeredAtMs = Number.NEGATIVE_INFINITY;
  #ejection: Ejection | null = null;
  #isProbed = false;
  #unhealthySinceMs: number | null = null;
  /** Checks in a row that say other than what counts now. */
  #contraryChecks = 0;

  constructor({ host, port }: Address, events: EndpointEvents) {
    this.host = host;
    this.port = port;
    this.name = host.includes(":") ? `[${host}]:${port}` : `${host}:${port}`;
    this.#events = events;
  }

  get isEjected(): boolean {
    return this.#ejection !== null || this.#unhealthySinceMs !== null;
  }

  /** When it was ejected last. */
  get ejectedAtMs(): number {
    return Math.max(this.#ejection?.atMs ?? 0, this.#unhealthySinceMs ?? 0);
  }

  /** The clock is not read for an address that is well. */
  isAvailable(nowMs: () => number): boolean {
    if (this.#unhealthySinceMs !== null) return false;
    return this.#ejection === null || (!this.#isProbed && nowMs() >= this.#ejection.untilMs);
  }

  /** Whether the request that goes there now is the one that shows how it is; `endProbe` when that is over. */
  beginProbe(nowMs: () => number): boolean {
    if (this.#ejection === null || !this.isAvailable(nowMs)) return false;
    this.#isProbed = true;
    return true;
  }

  /** However it ended: the next one may be sent. */
  endProbe(): void {
    this.#isProbed = false;
  }

  answered(nowMs: number): void {
    this.#answeredAtMs = nowMs;
    this.#failures = 0;
    this.#isRescueTold = false;
    if (this.#ejection === null) return;
    this.#ejection = null;
    this.#isProbed = false;
    this.#events.onRestored(this.name);
  }

  /** A request that was to go there goes to another one. */
  failedOver(reason: UpstreamErrorReason, code: string): void {
    this.#events.onFailover(this.name, reason, code, !this.#isRescueTold);
    this.#isRescueTold = true;
  }

  /** What the health check found: a status or a code, or null if it is well. */
  checked(fault: string | null, nowMs: number): void {
    const isHealthy = this.#unhealthySinceMs === null;
    this.#contraryChecks = (fault === null) === isHealthy ? 0 : this.#contraryChecks + 1;
    if (this.#contraryChecks < (isHealthy ? checksToEject : checksToRestore)) return;
    this.#contraryChecks = 0;
    this.#unhealthySinceMs = isHealthy ? nowMs : null;
    if (fault === null) this.#events.onHealthy(this.name);
    else this.#events.onUnhealthy(this.name, fault);
  }

  /** It took a request on a new connection, which it then reset. */
  resetUnanswered(nowMs: number): void {
    if (nowMs - this.#answeredAtMs >= answerHoldsMs) this.failed("reset", nowMs);
  }

  /** It could not be reached. While it is ejected only a probe's failure counts: the others are tried for want of any. */
  failed(reason: UpstreamErrorReason, nowMs: number): void {
    const { backoffMs } = this.#ejection ?? { backoffMs: firstBackoffMs / 2 };
    if (this.#ejection === null) {
      this.#failures += 1;
      if (this.#failures < failuresToEject) return;
    } else if (!this.#isProbed) return;
    const next = Math.min(maxBackoffMs, backoffMs * 2);
    this.#failures = 0;
    this.#isProbed = false;
    this.#ejection = { atMs: nowMs, untilMs: nowMs + next, backoffMs: next };
    this.#events.onEjected(this.name, reason, next);
  }
}
