// Asks each address of the upstream now and then how it is, on a connection of its own that nothing else uses. Three bad
// answers in a row take an address out, two good ones bring it back. At most one question for each address at a time;
// none of it is traffic.

import type { Endpoint } from "./endpoint.ts";
import { Http1Connection } from "./http1-connection.ts";
import { openSocket } from "./open-socket.ts";
import { upstreamErrorCode } from "./upstream-error.ts";
import type { UpstreamTls } from "./upstream-tls.ts";

export interface HealthCheckOptions {
  /** Origin form. */
  readonly path: string;
  readonly host: string;
  readonly intervalMs: number;
  /** For connecting, and again for the head of the response. */
  readonly timeoutMs: number;
  readonly tls: UpstreamTls | null;
  readonly endpoints: () => readonly Endpoint[];
  readonly nowMs: () => number;
}

export class HealthCheck {
  readonly #options: HealthCheckOptions;
  /** With what breaks the question off. */
  readonly #asked = new Map<Endpoint, () => void>();
  readonly #timer: NodeJS.Timeout;

  constructor(options: HealthCheckOptions) {
    this.#options = options;
    this.#timer = setInterval(() => this.#askAll(), options.intervalMs).unref();
    this.#askAll();
  }

  close(): void {
    clearInterval(this.#timer);
    for (const breakOff of this.#asked.values()) breakOff();
    this.#asked.clear();
  }

  #askAll(): void {
    for (const endpoint of this.#options.endpoints()) {
      if (!this.#asked.has(endpoint)) this.#ask(endpoint);
    }
  }

  #ask(endpoint: Endpoint): void {
    const { tls, timeoutMs, nowMs } = this.#options;
    /** `fault` is a status or a code; null: it is well. */
    const conclude = (fault: string | null): void => {
      if (this.#asked.delete(endpoint) && !endpoint.isGone) endpoint.checked(fault, nowMs());
    };
    const { host, port } = endpoint;
    const giveUp = openSocket({ host, port, tls, timeoutMs }, (error, reader) => {
      if (reader === null) {
        conclude(error === null ? "error" : upstreamErrorCode(error));
        return;
      }
      const connection = new Http1Connection(reader, { responseTimeoutMs: timeoutMs, onClose: () => {} });
      this.#asked.set(endpoint, () => connection.abort());
      this.#send(connection, conclude);
    });
    this.#asked.set(endpoint, giveUp);
  }

  #send(connection: Http1Connection, conclude: (fault: string | null) => void): void {
    const { path, host } = this.#options;
    const fields = ["Host", host, "User-Agent", "headgate-health-check", "Accept", "*/*"];
    connection.send(
      { method: "GET", path, fields, body: null, isLast: true, upgrade: "" },
      {
        onInterim: () => {},
        onHead: ({ status }) => {
          // What else it has to say is of no interest.
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
        onError: (error) => conclude(upstreamErrorCode(error)),
      },
    );
  }
}
