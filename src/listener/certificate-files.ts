// The files of `listen.tls`: read before the start, reread when they change. While they are away, wrong or do not belong
// together, the certificate from before stays in use and the mistake is reported once.
import { asError } from "../core/failure.ts";
import type { ReadFile } from "../core/read-file.ts";
import type { CertificateInUse, TlsFiles } from "../core/tls.ts";
import {
  type CertificateFlaw,
  type CertificateReading,
  type CertificateTexts,
  readCertificate,
} from "./certificate.ts";

export interface CertificateEvents {
  /** New connections are to get this one. */
  readonly onReload: (reading: ValidCertificate) => void;
  /** What is in use is the one from before. */
  readonly onError: (why: CertificateFilesError) => void;
}

export type ValidCertificate = Extract<CertificateReading, { ok: true }>;

export type CertificateFilesError =
  | { readonly kind: "unreadable"; readonly file: keyof TlsFiles; readonly cause: Error }
  | { readonly kind: "invalid"; readonly flaws: readonly CertificateFlaw[] };

export class CertificateProblem extends Error {
  readonly why: CertificateFilesError;
  constructor(why: CertificateFilesError) {
    super("The certificate cannot be used.", why.kind === "unreadable" ? { cause: why.cause } : undefined);
    this.why = why;
  }
}

/** As for the tokens file: plain reading sees every way in which a file can change. */
const defaultRereadMs = 1000;

export class CertificateFiles {
  /** Told of each change of `texts`. */
  onChange: (texts: CertificateTexts) => void = () => {};
  readonly #files: TlsFiles;
  readonly #readFile: ReadFile;
  readonly #events: CertificateEvents;
  #texts: CertificateTexts;
  #reading: ValidCertificate;
  #isCurrent = true;
  /** What could not be used at the last reading, and what of it has been told. */
  #wrong: string | null = null;
  #told: string | null = null;
  #timer: NodeJS.Timeout | null = null;

  private constructor(files: TlsFiles, readFile: ReadFile, events: CertificateEvents, texts: CertificateTexts) {
    this.#files = files;
    this.#readFile = readFile;
    this.#events = events;
    this.#texts = texts;
    this.#reading = judge(texts);
  }

  /** Reads the files, and again and again. Rejects with a CertificateProblem if they cannot be used to begin with. */
  static async watch(
    files: TlsFiles,
    readFile: ReadFile,
    events: CertificateEvents,
    rereadMs = defaultRereadMs,
  ): Promise<CertificateFiles> {
    const opened = new CertificateFiles(files, readFile, events, await readTexts(files, readFile));
    opened.#rereadAfter(rereadMs);
    return opened;
  }

  /** As they were when last they were right. */
  get texts(): CertificateTexts {
    return this.#texts;
  }

  get validity(): ValidCertificate {
    return this.#reading;
  }

  get inUse(): CertificateInUse {
    return { expiresMs: this.#reading.expiresMs, isCurrent: this.#isCurrent };
  }

  close(): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
  }

  #rereadAfter(rereadMs: number): void {
    const timer = setTimeout(async () => {
      await this.#reread(() => this.#timer !== timer);
      if (this.#timer === timer) this.#rereadAfter(rereadMs);
    }, rereadMs).unref();
    this.#timer = timer;
  }

  async #reread(isClosed: () => boolean): Promise<void> {
    let state = "away";
    try {
      const texts = await readTexts(this.#files, this.#readFile);
      state = fingerprint(texts);
      if (!isClosed() && state !== this.#told) this.#accept(texts, state);
    } catch (error) {
      if (!(error instanceof CertificateProblem)) throw error;
      if (!isClosed()) this.#refuse(error.why, state);
    }
  }

  #accept(texts: CertificateTexts, state: string): void {
    const isChanged = state !== fingerprint(this.#texts);
    if (isChanged) this.#reading = judge(texts);
    const isNews = isChanged || !this.#isCurrent;
    this.#wrong = this.#told = null;
    this.#isCurrent = true;
    this.#texts = texts;
    if (isChanged) this.onChange(texts);
    if (isNews) this.#events.onReload(this.#reading);
  }

  /** Certificate and key change one after the other: only what is still wrong at the next reading is a mistake. */
  #refuse(why: CertificateFilesError, state: string): void {
    if (state === this.#wrong && state !== this.#told) {
      this.#told = state;
      this.#isCurrent = false;
      this.#events.onError(why);
    }
    this.#wrong = state;
  }
}

async function readTexts({ cert, key, clientCa }: TlsFiles, readFile: ReadFile): Promise<CertificateTexts> {
  const read = async (file: keyof TlsFiles, path: string): Promise<string> => {
    try {
      return await readFile(path, "latin1");
    } catch (error) {
      throw new CertificateProblem({ kind: "unreadable", file, cause: asError(error) });
    }
  };
  return {
    cert: await read("cert", cert),
    key: await read("key", key),
    clientCa: clientCa === null ? null : await read("clientCa", clientCa),
  };
}

function judge(texts: CertificateTexts): ValidCertificate {
  const reading = readCertificate(texts);
  if (!reading.ok) throw new CertificateProblem({ kind: "invalid", flaws: reading.flaws });
  return reading;
}

const fingerprint = ({ cert, key, clientCa }: CertificateTexts): string => JSON.stringify([cert, key, clientCa]);
