// The PEM files behind upstream.tls, read and judged: all that is wrong with them is told at once, by key and file, and
// never with anything of what is in them.
import { createPrivateKey, type KeyObject, X509Certificate } from "node:crypto";
import { constants } from "node:fs";
import { open } from "node:fs/promises";
import { createSecureContext, type SecureContext } from "node:tls";
import type { UpstreamTlsSettings } from "../core/upstream.ts";

export type TlsFileKey = "ca" | "cert" | "key";

/** Absolute. */
export type TlsFilePaths = Pick<UpstreamTlsSettings, TlsFileKey>;

export type TlsFileError = { readonly key: TlsFileKey; readonly file: string } & (
  | { readonly kind: "unreadable"; readonly cause: Error }
  | { readonly kind: "invalid"; readonly found: string; readonly expected: string }
);

/** Without the path. */
export function whatIsWrong(error: TlsFileError): string {
  if (error.kind === "invalid") return error.found;
  return "code" in error.cause ? String(error.cause.code) : error.cause.name;
}

/** The text of each file that is configured, or why there is none. */
export type TlsTexts = ReadonlyMap<TlsFileKey, string | Error>;

export type TlsFilesJudged =
  | { readonly ok: true; readonly context: SecureContext }
  | { readonly ok: false; readonly errors: readonly TlsFileError[] };

const keys: readonly TlsFileKey[] = ["ca", "cert", "key"];

export async function readTlsTexts(tls: TlsFilePaths): Promise<TlsTexts> {
  const texts = new Map<TlsFileKey, string | Error>();
  for (const key of keys) {
    const file = tls[key];
    if (file !== null) texts.set(key, await readRegularFile(file).catch(asError));
  }
  return texts;
}

/** `read` throws for what is no regular file: a pipe would be waited for without end. */
export function readTlsTextsSync(tls: TlsFilePaths, read: (path: string) => Buffer): TlsTexts {
  const texts = new Map<TlsFileKey, string | Error>();
  for (const key of keys) {
    const file = tls[key];
    if (file === null) continue;
    try {
      texts.set(key, read(file).toString("utf8"));
    } catch (error) {
      texts.set(key, asError(error));
    }
  }
  return texts;
}

export function judgeTlsFiles(tls: TlsFilePaths, texts: TlsTexts): TlsFilesJudged {
  const errors: TlsFileError[] = [];
  const refuse = (key: TlsFileKey, found: string, expected: string): void => {
    errors.push({ kind: "invalid", key, file: tls[key] ?? "", found, expected });
  };
  const text = (key: TlsFileKey): string | undefined => {
    const read = texts.get(key);
    if (!(read instanceof Error)) return read;
    errors.push({ kind: "unreadable", key, file: tls[key] ?? "", cause: read });
    return undefined;
  };
  const [ca, cert, key] = [text("ca"), text("cert"), text("key")];
  if (ca !== undefined && parseCertificates(ca) === null) refuse("ca", ...noCertificate);
  const own = cert === undefined ? undefined : parseCertificates(cert);
  if (own === null) refuse("cert", ...noCertificate);
  const secret = key === undefined ? undefined : parseKey(key);
  if (secret === null) refuse("key", "no private key that can be read", "one in PEM, without a passphrase");
  if (own && secret && own[0]?.checkPrivateKey(secret) === false) {
    refuse("key", "the key of another certificate", "the one that belongs to upstream.tls.cert");
  }
  if (errors.length > 0) return { ok: false, errors: errors.toSorted(byKey) };
  try {
    return { ok: true, context: createSecureContext({ ...readable(tls, texts), minVersion: "TLSv1.2" }) };
  } catch (error) {
    // A key that is too short for OpenSSL, say.
    const code = error instanceof Error && "code" in error ? String(error.code) : "OpenSSL refuses";
    refuse(cert === undefined ? "ca" : "cert", code, "a certificate that OpenSSL accepts");
    return { ok: false, errors };
  }
}

const byKey = (a: TlsFileError, b: TlsFileError): number => keys.indexOf(a.key) - keys.indexOf(b.key);

/** Only what is there: without `ca` the system's roots are believed. */
function readable(tls: TlsFilePaths, texts: TlsTexts): Partial<Record<TlsFileKey, string>> {
  return Object.fromEntries(keys.filter((key) => tls[key] !== null).map((key) => [key, String(texts.get(key))]));
}

const noCertificate = ["no certificate that can be read", "one or more in PEM"] as const;

/** Null if there is none, or one that is none. */
function parseCertificates(text: string): X509Certificate[] | null {
  const blocks = text.match(/-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----/g) ?? [];
  try {
    const certificates = blocks.map((block) => new X509Certificate(block));
    return certificates.length > 0 ? certificates : null;
  } catch {
    return null;
  }
}

function parseKey(text: string): KeyObject | null {
  try {
    return createPrivateKey(text);
  } catch {
    return null;
  }
}

async function readRegularFile(path: string): Promise<string> {
  const file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK);
  try {
    const kind = await file.stat();
    if (!kind.isFile() && !kind.isDirectory()) throw new Error("no regular file");
    return await file.readFile("utf8");
  } finally {
    await file.close();
  }
}

function asError(error: unknown): Error {
  return error instanceof Error ? error : new Error(String(error));
}
