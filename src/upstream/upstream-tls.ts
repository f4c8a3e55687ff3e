// TLS to the upstream: the authorities that are trusted, the name that is expected, and the gateway's own certificate. A
// change of the files applies to new connections.
import { isIP, type TcpNetConnectOpts } from "node:net";
import { checkServerIdentity, connect, type SecureContext, type TLSSocket } from "node:tls";
import type { Watched } from "../core/file-group.ts";
import type { UpstreamTlsSettings } from "../core/upstream.ts";
import { failIfTruncated } from "./tls-truncation.ts";

export class UpstreamTls {
  readonly #files: Watched<SecureContext>;
  readonly #isVerified: boolean;
  /** Sent in the handshake and expected in the certificate. */
  readonly #name: string;
  #session: Buffer | null = null;

  /** `host`: of the upstream's URL, without brackets. */
  constructor(settings: UpstreamTlsSettings, host: string, files: Watched<SecureContext>) {
    this.#files = files;
    this.#isVerified = !settings.insecureSkipVerify;
    this.#name = (settings.serverName ?? host).replace(/\.$/, "");
    files.onChange = () => {
      // The session was checked against the authorities from before.
      this.#session = null;
    };
  }

  /** Opens a connection; it can be used from "secureConnect" on. */
  connect(options: TcpNetConnectOpts): TLSSocket {
    const context = this.#files.value;
    const socket = connect({
      ...options,
      secureContext: context,
      checkServerIdentity: (_host, certificate) => checkServerIdentity(this.#name, certificate),
      // RFC 6066, 3: an address is no server name. The certificate is checked against it all the same.
      ...(isIP(this.#name) === 0 ? { servername: this.#name } : {}),
      rejectUnauthorized: this.#isVerified,
      ALPNProtocols: ["http/1.1"],
      // Resuming a session saves both sides most of the handshake.
      ...(this.#session === null ? {} : { session: this.#session }),
    });
    failIfTruncated(socket);
    socket.on("session", (session) => {
      // A session of an earlier context was never checked against the authorities in use now.
      if (context === this.#files.value) this.#session = session;
    });
    return socket;
  }

  close(): void {
    this.#files.close();
  }
}
