// Connections in their TLS handshake: bounded in time, counted by how they fail, and shown to the HTTP parser only when
// they are through, a client's certificate included where one is asked for. The raw socket goes in, the one to read HTTP
// from comes out.
import { constants } from "node:crypto";
import type { Socket } from "node:net";
import { createServer, type Server, type TLSSocket, type TlsOptions } from "node:tls";
import type { TlsFailure } from "../core/tls.ts";
import type { CertificateTexts } from "./certificate.ts";

export interface TlsHandshakesOptions {
  readonly certificate: { readonly texts: CertificateTexts; onChange: (texts: CertificateTexts) => void };
  /** Whether HTTP/2 is offered. */
  readonly http2: boolean;
  readonly timeoutMs: number;
  /** `code` is OpenSSL's or the kernel's. */
  readonly onFailure: (reason: TlsFailure, code: string) => void;
}

interface Handshake {
  readonly raw: Socket;
  readonly serve: (socket: TLSSocket) => void;
}

export class TlsHandshakes {
  readonly #onFailure: TlsHandshakesOptions["onFailure"];
  readonly #server: Server;
  /** By the connection's two ends: from a TLS socket Node shows no way back to the socket beneath. */
  readonly #waiting = new Map<string, Handshake>();

  constructor({ certificate, http2, timeoutMs, onFailure }: TlsHandshakesOptions) {
    this.#onFailure = onFailure;
    this.#server = createServer({ ...contextOptions(certificate.texts, http2), handshakeTimeout: timeoutMs });
    this.#server.on("secureConnection", (socket) => this.#onSecure(socket));
    this.#server.on("tlsClientError", (error, socket) => this.#onFailed(error, socket));
    // New handshakes get the new certificate; connections that are open go on with what they have.
    certificate.onChange = (texts) => this.#server.setSecureContext(contextOptions(texts, http2));
  }

  /** Calls `serve` when the handshake is done, with the socket as if it had not been read; or closes the connection. */
  begin(raw: Socket, serve: (socket: TLSSocket) => void): void {
    const id = endsOf(raw);
    const handshake = { raw, serve };
    this.#waiting.set(id, handshake);
    raw.once("close", () => {
      if (this.#waiting.get(id) === handshake) this.#waiting.delete(id);
    });
    // Inside a handshake a client that ends its side has left; what follows wants half-closed connections, for HTTP's
    // sake.
    raw.allowHalfOpen = false;
    this.#server.emit("connection", raw);
  }

  /** Those that have not sent a byte wait for nothing that could get lost. */
  endSilent(): void {
    for (const { raw } of this.#waiting.values()) if (raw.bytesRead === 0) raw.destroy();
  }

  destroyAll(): void {
    for (const { raw } of this.#waiting.values()) raw.destroy();
  }

  #onSecure(socket: TLSSocket): void {
    const id = endsOf(socket);
    const handshake = this.#waiting.get(id);
    if (handshake === undefined) {
      socket.destroy();
      return;
    }
    this.#waiting.delete(id);
    // A client of HTTP/2 has no use for half a connection, and Node's session would not notice its end.
    socket.allowHalfOpen = socket.alpnProtocol !== "h2";
    handshake.serve(socket);
  }

  #onFailed(error: Error, socket: TLSSocket): void {
    const code = "code" in error ? String(error.code) : "";
    this.#onFailure(failureOf(code, socket), code);
    // Node leaves the socket of a handshake that took too long open.
    socket.destroy();
  }
}

function contextOptions({ cert, key, clientCa }: CertificateTexts, http2: boolean): TlsOptions {
  const client = clientCa === null ? {} : { ca: clientCa, requestCert: true, rejectUnauthorized: true };
  return {
    cert,
    key,
    ...client,
    minVersion: "TLSv1.2",
    ALPNProtocols: http2 ? ["h2", "http/1.1"] : ["http/1.1"],
    // A client may not have the server compute keys again and again (RFC 9113, 9.2.1 forbids it altogether).
    secureOptions: constants.SSL_OP_NO_RENEGOTIATION,
  };
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
  // The client's own words, so before ours.
  if (/_ALERT_/.test(code)) return "refused";
  if (incompatible.test(code)) return "incompatible";
  return code.startsWith("E") && !code.startsWith("ERR_") ? "closed" : "other";
}
