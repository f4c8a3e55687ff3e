// The TLS handshakes of clients, bounded in time; failures are counted by reason. The HTTP parser sees a connection
// only after its handshake, with a client certificate where one is required. Plain HTTP is recognized by its first
// bytes before TLS takes the socket, so that it gets a reply.
import { createHash, hkdfSync } from "node:crypto";
import type { Socket } from "node:net";
import { createServer, type Server, type TLSSocket } from "node:tls";
import type { TlsFailure } from "../core/connection-ends.ts";
import { errorCode } from "../core/failure.ts";
import type { Certificate, Replaceable, TrafficSettings } from "../core/settings.ts";
import { readFirstBytes } from "./proxy-header.ts";

interface TlsHandshakesOptions {
  /** `tls` is never null. */
  readonly settings: Replaceable<TrafficSettings>;
  /** `code` is from OpenSSL or the kernel, or from Node for a timeout. */
  readonly onFailure: (reason: TlsFailure, code: string) => void;
}

/** One of the two is called, once, while all bytes of the socket are unread; neither if the connection is closed. */
interface HandshakeHandlers {
  readonly onSecure: (socket: TLSSocket) => void;
  readonly onPlainHttp: () => void;
}

export class TlsHandshakes {
  readonly #settings: Replaceable<TrafficSettings>;
  readonly #onFailure: TlsHandshakesOptions["onFailure"];
  /** For new handshakes; it never listens. Those in progress keep the server with which they began. */
  #server: Server | null = null;
  #madeOf: readonly unknown[] = [];
  readonly #turns = new HandshakeTurns();
  /** By the addresses of both ends, because a TLS socket has no reference to its TCP socket. */
  readonly #waiting = new Map<string, WaitingHandshake>();

  constructor({ settings, onFailure }: TlsHandshakesOptions) {
    this.#settings = settings;
    this.#onFailure = onFailure;
    // Made now, so that the first client does not wait for it.
    this.#serverOf(settings.current);
  }

  /** `peer`: the key of the peer, whose handshakes are spread over the iterations of the event loop. */
  begin(raw: Socket, peer: string, handlers: HandshakeHandlers): void {
    const id = endsOf(raw);
    const onClose = (): void => {
      if (this.#waiting.get(id)?.handlers === handlers) this.#waiting.delete(id);
    };
    this.#waiting.set(id, { raw, handlers, onClose });
    raw.on("close", onClose);
    // A client that ends its side during the handshake has left. HTTP allows half-closed connections again.
    raw.allowHalfOpen = false;
    readFirstBytes(raw, this.#settings.current.headTimeoutMs, {
      onBytes: (bytes) => ({ taken: 0, next: () => this.#onFirstBytes(raw, bytes, peer, handlers) }),
      onTimeout: () => this.#onFailure("timeout", "ERR_TLS_HANDSHAKE_TIMEOUT"),
      onClose: () => this.#onFailure("closed", "ECONNRESET"),
    });
    raw.resume();
  }

  #onFirstBytes(raw: Socket, bytes: Buffer, peer: string, { onPlainHttp }: HandshakeHandlers): void {
    if (methodAndSpace.test(bytes.toString("latin1", 0, maxMethodBytes))) {
      this.#onFailure("not_tls", "ERR_SSL_HTTP_REQUEST");
      raw.allowHalfOpen = true;
      onPlainHttp();
    } else {
      this.#turns.begin(peer, () => {
        // TLS takes what is in the paused socket.
        if (!raw.destroyed) this.#serverOf(this.#settings.current).emit("connection", raw);
      });
    }
  }

  #serverOf({ tls, headTimeoutMs: handshakeTimeout }: TrafficSettings): Server {
    if (tls === null) throw new Error("a listener without TLS has no handshakes");
    const { certificate, http2, ticketSecret } = tls;
    const madeOf = [certificate.value, http2, handshakeTimeout];
    if (this.#server !== null && madeOf.every((part, i) => part === this.#madeOf[i])) return this.#server;
    const { cert, key, clientCa, handshake } = certificate.value;
    const server = createServer({
      ...{ cert, key, ...handshake, handshakeTimeout },
      ...(clientCa === null ? {} : { ca: clientCa, requestCert: true, rejectUnauthorized: true }),
      ALPNProtocols: http2 ? ["h2", ...http1Protocols] : http1Protocols,
      ...(ticketSecret === null ? {} : { ticketKeys: ticketKeys(ticketSecret, certificate.value) }),
    });
    server.on("secureConnection", (socket) => this.#onSecure(socket));
    server.on("tlsClientError", (error, socket) => this.#onFailed(error, socket));
    this.#madeOf = madeOf;
    this.#server = server;
    return server;
  }

  #onSecure(socket: TLSSocket): void {
    const id = endsOf(socket);
    const handshake = this.#waiting.get(id);
    if (handshake === undefined) {
      socket.destroy();
      return;
    }
    this.#waiting.delete(id);
    // What only the handshake needed is not kept as long as the connection.
    handshake.raw.off("close", handshake.onClose);
    // An HTTP/2 client does not use half-closed connections, and Node's session would not notice its end.
    socket.allowHalfOpen = socket.alpnProtocol !== "h2";
    handshake.handlers.onSecure(socket);
  }

  #onFailed(error: Error, socket: TLSSocket): void {
    const code = errorCode(error) ?? "";
    this.#onFailure(failureOf(code, socket), code);
    // Node leaves the socket open after a timeout.
    socket.destroy();
  }
}

interface WaitingHandshake {
  readonly raw: Socket;
  readonly handlers: HandshakeHandlers;
  readonly onClose: () => void;
}

/** The beginning of a request line, which no TLS record can be: its first byte would be 0x16. */
const methodAndSpace = /^[A-Z][A-Z-]* /;
const maxMethodBytes = 32;

/** A client of HTTP/1.0 may name only that. */
const http1Protocols = ["http/1.1", "http/1.0"];

/**
 * Returns the keys of session tickets, so that a client can resume a session with another thread. They depend on the
 * files and the offer, because a session that is resumed is not checked against other authorities or suites again.
 */
function ticketKeys(secret: Uint8Array, { cert, key, clientCa, handshake }: Certificate): Buffer {
  const digest = createHash("sha512")
    .update(JSON.stringify([cert, key, clientCa, handshake]))
    .digest();
  return Buffer.from(hkdfSync("sha512", secret, "", digest, 48));
}

const endsOf = ({ remoteAddress, remotePort, localAddress, localPort }: Socket): string =>
  `${remoteAddress} ${remotePort} ${localAddress} ${localPort}`;

const incompatible =
  /UNSUPPORTED_PROTOCOL|VERSION_TOO_LOW|NO_SHARED_CIPHER|NO_APPLICATION_PROTOCOL|NO_SUITABLE|NO_SHARED_/;

function failureOf(code: string, socket: TLSSocket): TlsFailure {
  if (socket.authorizationError) return "client_certificate";
  if (code === "ERR_TLS_HANDSHAKE_TIMEOUT") return "timeout";
  if (/HTTP_REQUEST|HTTPS_PROXY_REQUEST|WRONG_VERSION_NUMBER|PACKET_LENGTH_TOO_LONG|BAD_RECORD_TYPE/.test(code)) {
    return "not_tls";
  }
  if (/DID_NOT_RETURN_A_CERTIFICATE/.test(code)) return "client_certificate";
  // Checked before `incompatible`, because an alert is the client's own reason.
  if (/_ALERT_/.test(code)) return "refused";
  if (incompatible.test(code)) return "incompatible";
  return code.startsWith("E") && !code.startsWith("ERR_") ? "closed" : "other";
}

/** In one iteration of the event loop, for each peer. Many clients behind one address notice a few milliseconds. */
const startsInIteration = 4;

/**
 * Spreads the handshakes that one peer begins over the iterations of the event loop. The first flight of a handshake takes
 * most of a millisecond, so a thousand of them at once would delay all other clients by a second.
 */
export class HandshakeTurns {
  readonly #starts = new Map<string, number>();
  /** By peer: what is left for later iterations, in the order of arrival. */
  readonly #waiting = new Map<string, (() => void)[]>();
  #isScheduled = false;

  /** Calls `start` now, or in a later iteration if the peer has begun enough of them in this one. */
  begin(peer: string, start: () => void): void {
    this.#schedule();
    const starts = this.#starts.get(peer) ?? 0;
    if (starts < startsInIteration) {
      this.#starts.set(peer, starts + 1);
      start();
      return;
    }
    const queue = this.#waiting.get(peer);
    if (queue === undefined) this.#waiting.set(peer, [start]);
    else queue.push(start);
  }

  #schedule(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    setImmediate(this.#onIterationEnd);
  }

  readonly #onIterationEnd = (): void => {
    this.#isScheduled = false;
    this.#starts.clear();
    for (const [peer, queue] of this.#waiting) {
      const next = queue.splice(0, startsInIteration);
      if (queue.length === 0) this.#waiting.delete(peer);
      this.#starts.set(peer, next.length);
      for (const start of next) start();
    }
    if (this.#starts.size > 0) this.#schedule();
  };
}
