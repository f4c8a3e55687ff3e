// One address of the upstream and its state. After three failures in a row to connect it is ejected: not chosen for one
// second, then tried with one request; if that fails too, ejected for twice as long, up to half a minute. One response
// restores it. What happens to a request after its response has begun does not count, and a reset instead of a response
// counts only if the address has not answered for a while: the request itself may have caused it.
import type { HostPort } from "../core/host-port.ts";
import type { EndpointEvents, UpstreamErrorReason } from "../core/upstream.ts";

/** A connection, as far as its address knows it. */
export interface EndpointConnection {
  readonly endpoint: Endpoint;
  /** Its request shows whether an ejected address works again. */
  isProbe: boolean;
  readonly isClosed: boolean;
  abort(): void;
}

const failuresToEject = 3;
const checksToEject = 3;
const checksToRestore = 2;
const firstBackoffMs = 1_000;
const maxBackoffMs = 30_000;
/** For so long after a response, a reset is taken to be caused by its request. */
const answerHoldsMs = 5_000;

interface Ejection {
  readonly atMs: number;
  readonly untilMs: number;
  readonly backoffMs: number;
}

export class Endpoint {
  readonly host: string;
  readonly port: number;
  /** As in a URL. */
  readonly name: string;
  /** Requests on it, including those for which a connection is being opened. */
  pending = 0;
  /** Idle connections; the last one is used first. */
  readonly idle: EndpointConnection[] = [];
  /** It is no longer an address of the upstream in use: its connections are closed after their requests. */
  isRemoved = false;
  readonly #events: EndpointEvents;
  #failures = 0;
  #isFailoverReported = false;
  #answeredAtMs = Number.NEGATIVE_INFINITY;
  #ejection: Ejection | null = null;
  #isProbed = false;
  #unhealthySinceMs: number | null = null;
  /** Health checks in a row that contradict the current state. */
  #contraryChecks = 0;

  constructor({ host, port }: HostPort, events: EndpointEvents) {
    this.host = host;
    this.port = port;
    this.name = host.includes(":") ? `[${host}]:${port}` : `${host}:${port}`;
    this.#events = events;
  }

  get isEjected(): boolean {
    return this.#ejection !== null || this.#unhealthySinceMs !== null;
  }

  /** When it was last ejected. */
  get ejectedAtMs(): number {
    return Math.max(this.#ejection?.atMs ?? 0, this.#unhealthySinceMs ?? 0);
  }

  /** Takes a function, because the clock is read for ejected addresses only. */
  isAvailable(nowMs: () => number): boolean {
    if (this.#unhealthySinceMs !== null) return false;
    return this.#ejection === null || (!this.#isProbed && nowMs() >= this.#ejection.untilMs);
  }

  /** True if the next request is the one that tests an ejected address. `endProbe` follows. */
  beginProbe(nowMs: () => number): boolean {
    if (this.#ejection === null || !this.isAvailable(nowMs)) return false;
    this.#isProbed = true;
    return true;
  }

  /** Allows the next probe, whatever came of the last one. */
  endProbe(): void {
    this.#isProbed = false;
  }

  answered(nowMs: number): void {
    this.#answeredAtMs = nowMs;
    this.#failures = 0;
    this.#isFailoverReported = false;
    if (this.#ejection === null) return;
    this.#ejection = null;
    this.#isProbed = false;
    this.#events.onRestored(this.name);
  }

  /** A request for it goes to another address. */
  failedOver(reason: UpstreamErrorReason, code: string): void {
    this.#events.onFailover(this.name, reason, code, !this.#isFailoverReported);
    this.#isFailoverReported = true;
  }

  /** Takes the result of a health check: a status or an error code, or null if it is healthy. */
  checked(fault: string | null, nowMs: number): void {
    const isHealthy = this.#unhealthySinceMs === null;
    this.#contraryChecks = (fault === null) === isHealthy ? 0 : this.#contraryChecks + 1;
    if (this.#contraryChecks < (isHealthy ? checksToEject : checksToRestore)) return;
    this.#contraryChecks = 0;
    this.#unhealthySinceMs = isHealthy ? nowMs : null;
    if (fault === null) this.#events.onHealthy(this.name);
    else this.#events.onUnhealthy(this.name, fault);
  }

  /** It reset a request on a new connection. */
  resetUnanswered(nowMs: number): void {
    if (nowMs - this.#answeredAtMs >= answerHoldsMs) this.failed("reset", nowMs);
  }

  /**
   * A connection to it failed. While it is ejected only a probe's failure counts: other requests try it only because
   * there is no better address.
   */
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
