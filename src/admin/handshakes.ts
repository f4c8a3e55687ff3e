// The TLS handshakes of the admin listener, bounded in time. A new certificate is used for the handshakes that begin after it
// was loaded. Loaded only where TLS is configured.
import type { Socket } from "node:net";
import { createServer, type TLSSocket } from "node:tls";
import type { Certificate } from "../core/settings.ts";

/** A head may take as long. */
const handshakeTimeoutMs = 5_000;

export class AdminHandshakes {
  readonly #server;
  /** Returns the one in use. */
  readonly #certificate: () => Certificate;
  #used: Certificate;
  /** By the addresses of both ends, because a TLS socket has no reference to its TCP socket. */
  readonly #waiting = new Map<string, { readonly raw: Socket; readonly onSecure: (socket: TLSSocket) => void }>();

  constructor(certificate: () => Certificate) {
    this.#certificate = certificate;
    this.#used = certificate();
    this.#server = createServer({
      ...contextOf(this.#used),
      ALPNProtocols: ["http/1.1", "http/1.0"],
      handshakeTimeout: handshakeTimeoutMs,
    });
    this.#server.on("secureConnection", (socket) => this.#onSecure(socket));
    this.#server.on("tlsClientError", (_error, socket) => void socket.destroy());
  }

  /** `onSecure` gets the connection with all that it brings unread, unless the handshake fails: then it is closed. */
  begin(raw: Socket, onSecure: (socket: TLSSocket) => void): void {
    if (raw.destroyed) return;
    const certificate = this.#certificate();
    if (certificate !== this.#used) {
      this.#used = certificate;
      this.#server.setSecureContext(contextOf(certificate));
    }
    const ends = endsOf(raw);
    this.#waiting.set(ends, { raw, onSecure });
    raw.once("close", () => {
      if (this.#waiting.get(ends)?.raw === raw) this.#waiting.delete(ends);
    });
    this.#server.emit("connection", raw);
  }

  #onSecure(socket: TLSSocket): void {
    const ends = endsOf(socket);
    const waiting = this.#waiting.get(ends);
    this.#waiting.delete(ends);
    if (waiting === undefined) socket.destroy();
    else waiting.onSecure(socket);
  }
}

function contextOf({ cert, key, handshake }: Certificate) {
  return { cert, key, ...handshake };
}

const endsOf = ({ remoteAddress, remotePort, localAddress, localPort }: Socket): string =>
  `${remoteAddress} ${remotePort} ${localAddress} ${localPort}`;
