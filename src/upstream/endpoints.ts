// Which addresses of the upstream there are, which of them the next request goes to (the one with the fewest, in turn
// where several have as few), and the opening of connections to them. A request whose connection could not be opened,
// of which nobody can have seen a byte, is given to one other address.
import type { UpstreamErrorReason } from "../core/upstream.ts";
import { type Address, Endpoint, type EndpointConnection, type EndpointEvents } from "./endpoint.ts";
import { openSocket } from "./open-socket.ts";
import type { SocketReader } from "./socket-reader.ts";
import { upstreamErrorCode, upstreamErrorReason } from "./upstream-error.ts";
import type { UpstreamTls } from "./upstream-tls.ts";

export interface EndpointsOptions extends EndpointEvents {
  readonly tls: UpstreamTls | null;
  readonly connectTimeoutMs: number;
  readonly nowMs: () => number;
}

/** An open connection for one request. */
export interface Opened {
  readonly reader: SocketReader;
  readonly endpoint: Endpoint;
  /** The request shows whether an ejected address is well again. */
  isProbe: boolean;
}

/** One of them is called, once. */
export interface OpenedOrNot {
  readonly onOpened: (opened: Opened) => void;
  readonly onFailed: (error: Error, at: Endpoint) => void;
}

/** What stands for reasons of an address, rather than of the request or of the gateway. */
const reasonsOfAddress: ReadonlySet<UpstreamErrorReason> = new Set([
  "refused",
  "unreachable",
  "connect_timeout",
  "certificate",
  "tls",
  "reset",
  "closed_early",
  "other",
]);

class NoAddress extends Error {
  readonly code = "ENOTFOUND";
}

export class Endpoints {
  readonly #options: EndpointsOptions;
  #list: readonly Endpoint[] = [];
  #turn = 0;
  #onGone: (endpoint: Endpoint) => void = () => {};

  constructor(options: EndpointsOptions) {
    this.#options = options;
  }

  get all(): readonly Endpoint[] {
    return this.#list;
  }

  /** Called with each address that is used no more. */
  onGone(listener: (endpoint: Endpoint) => void): void {
    this.#onGone = listener;
  }

  /** What is known of an address that stays is kept. */
  set(addresses: readonly Address[]): void {
    const before = this.#list;
    this.#list = addresses.map(
      ({ host, port }) =>
        before.find((endpoint) => endpoint.host === host && endpoint.port === port) ??
        new Endpoint({ host, port }, this.#options),
    );
    for (const endpoint of before) {
      if (this.#list.includes(endpoint)) continue;
      endpoint.isGone = true;
      this.#onGone(endpoint);
    }
  }

  /**
   * Null if there is no address at all. If all are ejected it is the one that was so first: ejection never makes a
   * request fail that could have been served.
   */
  choose(): Endpoint | null {
    const list = this.#list;
    if (list.length === 1) return list[0] ?? null;
    return this.#chooseAvailable(anyEndpoint) ?? leastRecentlyEjected(list);
  }

  /** One with an idle connection. */
  chooseIdle(): Endpoint | null {
    return this.#chooseAvailable(hasIdle);
  }

  noAddress(): Error {
    return new NoAddress("No address of the upstream is known.");
  }

  /** Returns a function that gives it up; neither of `then` is called afterwards. */
  open(endpoint: Endpoint, options: { readonly allowHalfOpen: boolean }, then: OpenedOrNot): () => void {
    let cancel = this.#attempt(endpoint, options, then.onOpened, (error) => {
      const other = this.#chooseAvailable((candidate) => candidate !== endpoint);
      if (other === null) {
        then.onFailed(error, endpoint);
        return;
      }
      endpoint.failedOver(upstreamErrorReason(error), upstreamErrorCode(error));
      cancel = this.#attempt(other, options, then.onOpened, (error) => then.onFailed(error, other));
    });
    return () => cancel();
  }

  /** One that is idle is given to a request. */
  lend(connection: EndpointConnection): void {
    connection.endpoint.pending += 1;
    connection.isProbe = connection.endpoint.beginProbe(this.#options.nowMs);
  }

  /** The request on it is over; so is what `open` gave. */
  endLease(connection: { readonly endpoint: Endpoint; isProbe: boolean }): void {
    connection.endpoint.pending -= 1;
    if (connection.isProbe) connection.endpoint.endProbe();
    connection.isProbe = false;
  }

  resetUnanswered(endpoint: Endpoint): void {
    endpoint.resetUnanswered(this.#options.nowMs());
  }

  #attempt(
    endpoint: Endpoint,
    { allowHalfOpen }: { readonly allowHalfOpen: boolean },
    onOpened: (opened: Opened) => void,
    onFailed: (error: Error) => void,
  ): () => void {
    const { tls, connectTimeoutMs: timeoutMs, nowMs } = this.#options;
    const isProbe = endpoint.beginProbe(nowMs);
    const over = (): void => {
      endpoint.pending -= 1;
      if (isProbe) endpoint.endProbe();
    };
    endpoint.pending += 1;
    const { host, port } = endpoint;
    const cancel = openSocket({ host, port, tls, timeoutMs, allowHalfOpen }, (error, reader) => {
      if (reader !== null) {
        onOpened({ reader, endpoint, isProbe });
        return;
      }
      const why = error ?? new Error("no connection");
      const reason = upstreamErrorReason(why);
      if (reasonsOfAddress.has(reason)) endpoint.failed(reason, nowMs());
      over();
      onFailed(why);
    });
    return () => {
      cancel();
      over();
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
  let first: Endpoint | null = null;
  for (const endpoint of list) {
    if (first === null || endpoint.ejectedAtMs < first.ejectedAtMs) first = endpoint;
  }
  return first;
}
