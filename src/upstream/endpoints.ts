// The addresses of the upstream: which one the next request goes to (the one with the fewest requests, in turn among
// equals), and how connections to them are opened. If a connection cannot be opened, no byte of the request can have
// arrived, so the request is given to one other address.
import type { HostPort } from "../core/host-port.ts";
import type { EndpointEvents } from "../core/upstream.ts";
import type { TextWrites } from "../exchange/text-writes.ts";
import { Endpoint, type EndpointConnection } from "./endpoint.ts";
import { openSocket } from "./open-socket.ts";
import { createSharedParts, type SharedParts } from "./shared-parts.ts";
import type { SocketReader } from "./socket-reader.ts";
import { upstreamErrorCode, upstreamErrorReason } from "./upstream-error.ts";
import type { UpstreamTls } from "./upstream-tls.ts";

interface EndpointsOptions extends EndpointEvents {
  readonly tls: UpstreamTls | null;
  readonly connectTimeoutMs: number;
  readonly nowMs: () => number;
  readonly textWrites: TextWrites;
}

/** An open connection for one request. */
export interface Opened {
  readonly reader: SocketReader;
  readonly endpoint: Endpoint;
  /** Its request shows whether an ejected address works again. */
  isProbe: boolean;
}

/** One of the callbacks is called, once. */
interface OpenOptions {
  readonly isStream?: boolean;
  readonly onOpened: (opened: Opened) => void;
  readonly onFailed: (error: Error, at: Endpoint) => void;
}

export class Endpoints {
  readonly shared: SharedParts;
  readonly #options: EndpointsOptions;
  #list: readonly Endpoint[] = [];
  #turn = 0;
  /** Called with an address that is no longer the upstream's. */
  onRemoved: (endpoint: Endpoint) => void = () => {};

  constructor(options: EndpointsOptions) {
    this.#options = options;
    this.shared = createSharedParts(options.textWrites);
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
    return this.#chooseAvailable(anyEndpoint) ?? leastRecentlyEjected(list);
  }

  /** Chooses among those with an idle connection. */
  chooseIdle(): Endpoint | null {
    return this.#chooseAvailable(hasIdle);
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
    const { buffers } = this.shared;
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
const hasIdle = ({ idle }: Endpoint): boolean => idle.length > 0;

function leastRecentlyEjected(list: readonly Endpoint[]): Endpoint | null {
  return list.toSorted((a, b) => a.ejectedAtMs - b.ejectedAtMs)[0] ?? null;
}
