// Sends a health check to each address of the upstream at intervals, each on a connection of its own. Three failures in a
// row eject an address, two successes restore it. An address is checked once at a time. The checks are not counted as
// requests.

import type { Endpoint, Endpoints } from "./endpoints.ts";
import { OutboundConnection } from "./outbound-connection.ts";
import { brokenBy, upstreamErrorCode } from "./upstream-error.ts";
import { openSocket } from "./upstream-socket.ts";
import type { UpstreamTls } from "./upstream-tls.ts";

interface HealthCheckOptions {
  /** Origin form. */
  readonly path: string;
  readonly host: string;
  readonly intervalMs: number;
  /** For the connection, and again for the head of the response. */
  readonly timeoutMs: number;
  readonly tls: UpstreamTls | null;
  readonly endpoints: Endpoints;
  readonly nowMs: () => number;
}

export class HealthCheck {
  readonly #options: HealthCheckOptions;
  /** Each with the function that cancels the check. */
  readonly #running = new Map<Endpoint, () => void>();
  readonly #timer: NodeJS.Timeout;

  constructor(options: HealthCheckOptions) {
    this.#options = options;
    this.#timer = setInterval(() => this.#checkAll(), options.intervalMs).unref();
    this.#checkAll();
  }

  close(): void {
    clearInterval(this.#timer);
    for (const cancel of this.#running.values()) cancel();
    this.#running.clear();
  }

  #checkAll(): void {
    for (const endpoint of this.#options.endpoints.all) {
      if (!this.#running.has(endpoint)) this.#check(endpoint);
    }
  }

  #check(endpoint: Endpoint): void {
    const { tls, timeoutMs, nowMs, endpoints } = this.#options;
    /** `fault` is a status or an error code; null: healthy. */
    const conclude = (fault: string | null): void => {
      if (this.#running.delete(endpoint) && !endpoint.isRemoved) endpoint.checked(fault, nowMs());
    };
    const { host, port } = endpoint;
    const { resources } = endpoints;
    const cancelOpening = openSocket({ host, port, tls, timeoutMs, buffers: resources.buffers }, (error, reader) => {
      if (reader === null) {
        conclude(error === null ? "error" : upstreamErrorCode(error));
        return;
      }
      const timeouts = { responseTimeoutMs: timeoutMs, bodyTimeoutMs: timeoutMs };
      const connection = new OutboundConnection(reader, { ...resources, ...timeouts, onClose: () => {} });
      this.#running.set(endpoint, () => connection.abort());
      this.#send(connection, conclude);
    });
    this.#running.set(endpoint, cancelOpening);
  }

  #send(connection: OutboundConnection, conclude: (fault: string | null) => void): void {
    const { path, host } = this.#options;
    const start = `GET ${path} HTTP/1.1\r\nHost: ${host}\r\nUser-Agent: headgate-health-check\r\nAccept: */*`;
    connection.send(
      { method: "GET", start, hasLength: false, mayGetLength: false, body: null, isLast: true, upgrade: "" },
      {
        onInterim: () => {},
        onHead: ({ status }) => {
          // The body is not needed.
          setImmediate(() => connection.abort());
          conclude(status >= 200 && status < 400 ? null : `HTTP ${status}`);
        },
        onBody: () => false,
        onPacketEnd: () => {},
        onEnd: () => {},
        onUpgrade: (_fields, socket) => {
          socket.destroy();
          conclude("HTTP 101");
        },
        onError: (error) => conclude(brokenBy(error)?.rule ?? upstreamErrorCode(error)),
      },
    );
  }
}
