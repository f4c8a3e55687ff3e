// The addresses of the upstream: which one the next request goes to (the one with the fewest requests, in turn among
// equals), and how connections to them are opened. If a connection cannot be opened, no byte of the request can have
// arrived, so the request is given to one other address.
import { bracketed, type HostPort } from "../core/ip-address.ts";
import type { EndpointEvents, ResponseTimeouts, UpstreamErrorReason } from "../core/upstream.ts";
import type { TextWrites } from "../exchange/socket-writes.ts";
import { type ConnectionResources, createConnectionResources } from "./outbound-connection.ts";
import { upstreamErrorCode, upstreamErrorReason } from "./upstream-error.ts";
import { openSocket, type SocketReader } from "./upstream-socket.ts";
import type { UpstreamTls } from "./upstream-tls.ts";

interface EndpointsOptions extends EndpointEvents, ResponseTimeouts {
  readonly tls: UpstreamTls | null;
  readonly connectTimeoutMs: number;
  readonly maxHeaderBytes: number;
  readonly nowMs: () => number;
  readonly textWrites: TextWrites;
}

/** An open connection for one request. */
export interface OpenedConnection {
  readonly reader: SocketReader;
  readonly endpoint: Endpoint;
  /** Its request shows whether an ejected address works again. */
  isProbe: boolean;
}

/** One of the callbacks is called, once. */
interface OpenOptions {
  readonly isStream?: boolean;
  readonly onOpened: (opened: OpenedConnection) => void;
  readonly onFailed: (error: Error, at: Endpoint) => void;
}

export class Endpoints {
  readonly resources: ConnectionResources & ResponseTimeouts;
  readonly #options: EndpointsOptions;
  #list: readonly Endpoint[] = [];
  #turn = 0;
  /** Called with an address that is no longer the upstream's. */
  onRemoved: (endpoint: Endpoint) => void = () => {};

  constructor(options: EndpointsOptions) {
    this.#options = options;
    const { maxHeaderBytes, textWrites, responseTimeoutMs, bodyTimeoutMs } = options;
    this.resources = { ...createConnectionResources(maxHeaderBytes, textWrites), responseTimeoutMs, bodyTimeoutMs };
  }

  get all(): readonly Endpoint[] {
    return this.#list;
  }

  /** Sets the addresses. One that was there before keeps its state and its connections. */
  set(addresses: readonly HostPort[]): void {
    const before = this.#list;
    this.#list = addresses.map(
      ({ host, port }) =>
        before.find((endpoint) => endpoint.host === host && endpoint.port === port) ??
        new Endpoint({ host, port }, this.#options),
    );
    for (const endpoint of before) {
      if (this.#list.includes(endpoint)) continue;
      endpoint.isRemoved = true;
      this.onRemoved(endpoint);
    }
  }

  /** Uses no connection a second time from now on. The addresses still serve requests. */
  retire(): void {
    for (const endpoint of this.#list) {
      endpoint.isRemoved = true;
      this.onRemoved(endpoint);
    }
  }

  /**
   * Null if there is no address. If all are ejected, the one that was ejected first: ejection never fails a request that
   * could have been served.
   */
  choose(): Endpoint | null {
    const list = this.#list;
    if (list.length === 1) return list[0] ?? null;
    const leastRecentlyEjected = (): Endpoint | undefined => list.toSorted((a, b) => a.ejectedAtMs - b.ejectedAtMs)[0];
    return this.#chooseAvailable(anyEndpoint) ?? leastRecentlyEjected() ?? null;
  }

  /** Chooses among those with a connection that became idle after this instant. */
  chooseIdle(afterMs: number): Endpoint | null {
    return this.#chooseAvailable((endpoint) => endpoint.hasIdle(afterMs));
  }

  /** Returns a function that cancels the opening; neither callback is called after it. */
  open(endpoint: Endpoint, options: OpenOptions): () => void {
    const { onFailed } = options;
    let cancel = this.#attempt(endpoint, options, (error) => {
      const other = this.#chooseAvailable((candidate) => candidate !== endpoint);
      if (other === null) {
        onFailed(error, endpoint);
        return;
      }
      endpoint.failedOver(upstreamErrorReason(error), upstreamErrorCode(error));
      cancel = this.#attempt(other, options, (error) => onFailed(error, other));
    });
    return () => cancel();
  }

  /** Counts a request on a connection that was idle. */
  beginRequest(connection: EndpointConnection): void {
    connection.endpoint.pending += 1;
    connection.isProbe = connection.endpoint.beginProbe(this.#options.nowMs);
  }

  /** Ends what `beginRequest`, or `open`, began. */
  endRequest(connection: { readonly endpoint: Endpoint; isProbe: boolean }): void {
    connection.endpoint.pending -= 1;
    if (connection.isProbe) connection.endpoint.endProbe();
    connection.isProbe = false;
  }

  resetUnanswered(endpoint: Endpoint): void {
    endpoint.resetUnanswered(this.#options.nowMs());
  }

  #attempt(endpoint: Endpoint, options: OpenOptions, onFailed: (error: Error) => void): () => void {
    const { isStream = false, onOpened } = options;
    const { tls, connectTimeoutMs: timeoutMs, nowMs } = this.#options;
    const attempt = { endpoint, isProbe: endpoint.beginProbe(nowMs) };
    endpoint.pending += 1;
    const { host, port } = endpoint;
    const { buffers } = this.resources;
    const cancel = openSocket({ host, port, tls, timeoutMs, isStream, buffers }, (error, reader) => {
      if (reader !== null) {
        onOpened({ reader, ...attempt });
        return;
      }
      const why = error ?? new Error("no connection");
      const reason = upstreamErrorReason(why);
      // Without files or memory the gateway cannot open a socket, which says nothing about the address.
      if (reason !== "overloaded") endpoint.failed(reason, nowMs());
      this.endRequest(attempt);
      onFailed(why);
    });
    return () => {
      cancel();
      this.endRequest(attempt);
    };
  }

  #chooseAvailable(isWanted: (endpoint: Endpoint) => boolean): Endpoint | null {
    const list = this.#list;
    this.#turn = (this.#turn + 1) % Math.max(1, list.length);
    let best: Endpoint | null = null;
    for (let i = 0; i < list.length; i += 1) {
      const endpoint = list[(this.#turn + i) % list.length] as Endpoint;
      if (best !== null && endpoint.pending >= best.pending) continue;
      if (isWanted(endpoint) && endpoint.isAvailable(this.#options.nowMs)) best = endpoint;
    }
    return best;
  }
}

const anyEndpoint = (): boolean => true;

/** A connection, as far as its address knows it. */
export interface EndpointConnection {
  readonly endpoint: Endpoint;
  /** Its request shows whether an ejected address works again. */
  isProbe: boolean;
  /** When it became idle last. */
  readonly idleSinceMs: number;
  readonly isClosed: boolean;
  abort(): void;
}

const failuresToEject = 3;
const checksToEject = 3;
const checksToRestore = 2;
const firstBackoffMs = 1_000;
const maxBackoffMs = 30_000;
/** A reset within this time after a response of the address is blamed on the request, not on the address. */
const answerHoldsMs = 5_000;

interface Ejection {
  readonly reason: UpstreamErrorReason;
  readonly atMs: number;
  readonly untilMs: number;
  readonly backoffMs: number;
}

/**
 * One address of the upstream and its state. After three failures in a row to connect it is ejected: not chosen for one
 * second, then tried with one request; if that fails too, ejected for twice as long, up to half a minute. One response
 * restores it. What happens to a request after its response has begun does not count, and a reset instead of a response
 * counts only if the address has not answered for a while: the request itself may have caused it.
 */
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
  /** Of the last health check that took it out. */
  #fault = "";
  /** Health checks in a row that contradict the current state. */
  #contraryChecks = 0;

  constructor({ host, port }: HostPort, events: EndpointEvents) {
    this.host = host;
    this.port = port;
    this.name = `${bracketed(host)}:${port}`;
    this.#events = events;
  }

  get isEjected(): boolean {
    return this.ejectedFor !== null;
  }

  /** Why it is ejected: a reason, or a health check's status or error code; null: it is not. */
  get ejectedFor(): string | null {
    return this.#unhealthySinceMs === null ? (this.#ejection?.reason ?? null) : this.#fault;
  }

  /** When it was last ejected. */
  get ejectedAtMs(): number {
    return Math.max(this.#ejection?.atMs ?? 0, this.#unhealthySinceMs ?? 0);
  }

  /** Returns whether a connection became idle after this instant. */
  hasIdle(afterMs: number): boolean {
    const last = this.idle.at(-1);
    return last !== undefined && last.idleSinceMs > afterMs;
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
    this.#fault = fault ?? "";
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
    this.#ejection = { reason, atMs: nowMs, untilMs: nowMs + next, backoffMs: next };
    this.#events.onEjected(this.name, reason, next);
  }
}
