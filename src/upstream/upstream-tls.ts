// TLS to the upstream: the authorities that are trusted, the name that is expected, and the gateway's own certificate. A
// change of the files applies to new connections.
import { isIP, type TcpNetConnectOpts } from "node:net";
import { constants } from "node:os";
import { checkServerIdentity, connect, type SecureContext, type TLSSocket } from "node:tls";
import type { Watched } from "../core/file-group.ts";
import type { UpstreamTlsSettings } from "../core/upstream.ts";
import { judgeEnd } from "./read-ends.ts";
import { UpstreamFailure } from "./upstream-error.ts";

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

interface TlsHandle {
  /** False while the reader has paused it. */
  readonly reading: boolean;
  /** The one of the TCP connection. `readStart` returns EALREADY while it is read. */
  readonly _parent?: { readStart?(): number };
}

/**
 * Makes a truncated TLS connection fail with TLS_TRUNCATED. Node does not tell whether the upstream has ended TLS
 * (close_notify), or somebody on the way has closed the TCP connection to cut off a response without a length (RFC 8446, 6.1).
 * The difference: after a close_notify the TCP connection is still being read, after its own end it is not. The handle that
 * shows this is not documented. Without it every end counts as a truncation, so that no truncated response is taken for a
 * whole one. Must be called before the socket can be read.
 */
export function failIfTruncated(socket: TLSSocket): void {
  judgeEnd(socket, () => (hasEnded(socket) ? null : new UpstreamFailure("TLS_TRUNCATED")));
}

/** Whether an end that comes right now is that of TLS. */
function hasEnded(socket: TLSSocket): boolean {
  const { _handle: handle } = socket as unknown as { readonly _handle: TlsHandle | null };
  // While it is paused, the end of the TCP connection is not seen, but the rest of what was read before is.
  return handle?.reading === false || handle?._parent?.readStart?.() === -constants.errno.EALREADY;
}
