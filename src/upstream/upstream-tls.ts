// How the gateway speaks TLS to the upstream: whom it believes, whom it asks for, and as whom. The files are read before
// the start and reread when they change, for new connections; while what is in them cannot be used, what was read
// before stays in use, and that is told once.
import { isIP, type Socket } from "node:net";
import type { SecureContext, TLSSocket } from "node:tls";
import { failureCode } from "../core/failure.ts";
import type { ReadFile } from "../core/read-file.ts";
import type { UpstreamTlsSettings } from "../core/upstream.ts";
import { connectTls } from "./tls-carrier.ts";
import { judgeTlsFiles, readTlsTexts, type TlsFileError, type TlsFileKey, type TlsTexts } from "./tls-files.ts";

export interface UpstreamTlsEvents {
  readonly onReload: () => void;
  /** What is in use is what was read before. */
  readonly onError: (errors: readonly { readonly key: string; readonly found: string }[]) => void;
}

/** The files cannot be used to begin with. */
export class TlsFilesProblem extends Error {
  readonly errors: readonly TlsFileError[];

  constructor(errors: readonly TlsFileError[]) {
    super("The files of upstream.tls cannot be used.");
    this.errors = errors;
  }
}

/** The upstream's certificate is not one to trust. */
export class TlsRefused extends Error {
  /** Such as CERT_HAS_EXPIRED. */
  readonly why: string;

  constructor(cause: Error) {
    super("The upstream's certificate was refused.", { cause });
    this.why = "code" in cause && typeof cause.code === "string" ? cause.code : "ERR_TLS_CERT";
  }
}

/** See auth/tokens-file-authenticator.ts: plain reading sees every way in which a file is replaced. */
const rereadMs = 1000;

export class UpstreamTls {
  readonly #settings: UpstreamTlsSettings;
  readonly #events: UpstreamTlsEvents;
  readonly #readFile: ReadFile;
  /** For the handshake and for the certificate. */
  readonly #name: string;
  #texts: TlsTexts;
  /** What was read last and could not be used. Told when it is read again: files are replaced one after the other. */
  #refused: TlsTexts | null = null;
  #context: SecureContext;
  #session: Buffer | null = null;
  #timer: NodeJS.Timeout | undefined;
  #isClosed = false;

  /** `host`: of the upstream's URL, without brackets. Rejects with a TlsFilesProblem. */
  static async open(
    settings: UpstreamTlsSettings,
    host: string,
    readFile: ReadFile,
    events: UpstreamTlsEvents,
  ): Promise<UpstreamTls> {
    const texts = await readTlsTexts(settings, readFile);
    const judged = judgeTlsFiles(settings, texts);
    if (!judged.ok) throw new TlsFilesProblem(judged.errors);
    return new UpstreamTls(settings, host, readFile, events, texts, judged.context);
  }

  private constructor(
    settings: UpstreamTlsSettings,
    host: string,
    readFile: ReadFile,
    events: UpstreamTlsEvents,
    texts: TlsTexts,
    context: SecureContext,
  ) {
    this.#settings = settings;
    this.#events = events;
    this.#readFile = readFile;
    this.#name = (settings.serverName ?? host).replace(/\.$/, "");
    this.#texts = texts;
    this.#context = context;
    if (texts.size > 0) this.#rereadLater();
  }

  /** A connection over `raw`, whose handshake is still to come. */
  over(raw: Socket): TLSSocket {
    const context = this.#context;
    const socket = connectTls(raw, {
      secureContext: context,
      host: this.#name,
      // RFC 6066, 3: an address is no server name. It is held against the certificate all the same.
      ...(isIP(this.#name) === 0 ? { servername: this.#name } : {}),
      rejectUnauthorized: !this.#settings.insecureSkipVerify,
      ALPNProtocols: ["http/1.1"],
      // What was agreed on before spares both sides most of the handshake.
      ...(this.#session === null ? {} : { session: this.#session }),
    });
    socket.on("session", (session) => {
      // Not if by now another authority is to be believed, whom it was never shown to.
      if (context === this.#context) this.#session = session;
    });
    return socket;
  }

  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#timer);
  }

  #rereadLater(): void {
    this.#timer = setTimeout(async () => {
      await this.#reread();
      if (!this.#isClosed) this.#rereadLater();
    }, rereadMs).unref();
  }

  async #reread(): Promise<void> {
    const texts = await readTlsTexts(this.#settings, this.#readFile);
    if (this.#isClosed || areSame(texts, this.#texts)) return;
    const judged = judgeTlsFiles(this.#settings, texts);
    if (judged.ok) {
      this.#texts = texts;
      this.#context = judged.context;
      // It was made with what was believed before.
      this.#session = null;
      this.#events.onReload();
    } else if (this.#refused !== null && areSame(texts, this.#refused)) {
      this.#texts = texts;
      const told = judged.errors.map((error) => ({ key: `upstream.tls.${error.key}`, found: foundIn(error) }));
      this.#events.onError(told);
    }
    this.#refused = texts;
  }
}

/** Without the path. */
function foundIn(error: TlsFileError): string {
  return error.kind === "invalid" ? error.found : failureCode(error.cause);
}

function areSame(a: TlsTexts, b: TlsTexts): boolean {
  const told = (text: string | Error | undefined): string | undefined => (text instanceof Error ? "" : text);
  return (["ca", "cert", "key"] satisfies TlsFileKey[]).every((key) => told(a.get(key)) === told(b.get(key)));
}
