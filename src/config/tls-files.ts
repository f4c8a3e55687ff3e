// The PEM files of `listen.tls`, `admin.tls`, `upstream.tls` and `counters.redis.tls`, validated before they are used: whether each can be
// parsed, and whether certificate and key belong together. Quotes nothing from a file, because any may be a secret in the
// wrong place.

import { constants, createPrivateKey, type KeyObject, X509Certificate } from "node:crypto";
import { createSecureContext, type SecureContext, type SecureContextOptions } from "node:tls";
import { errorCode } from "../core/failure.ts";
import type { FileFlaw, FileGroup } from "../core/file-group.ts";
import type { Certificate, TlsFiles, TlsOffer, Validity } from "../core/settings.ts";
import type { OutboundTlsPaths } from "../core/upstream.ts";
import { hasSuiteFor, openSslList } from "./tls-suites.ts";

// Renegotiation costs the server a key exchange each time (RFC 9113, 9.2.1). Clients without hardware for AES prefer ChaCha20.
// OpenSSL's other groups are slow: P-521 takes the server four times as long. Its tickets are valid for two hours; a session that
// is resumed is not checked against the client's certificate again.
const fixedOffer = {
  secureOptions: constants.SSL_OP_NO_RENEGOTIATION | constants.SSL_OP_PRIORITIZE_CHACHA,
  ecdhCurve: "X25519MLKEM768:X25519:P-256:P-384",
  sessionTimeout: 300,
};

/** Without certificate and key there is no value. */
export function listenTlsFiles(
  { minVersion = "TLSv1.2", ciphers, ...paths }: Readonly<Record<keyof TlsFiles, string | null>> & TlsOffer,
  section: "listen.tls" | "admin.tls" = "listen.tls",
): FileGroup<Certificate> {
  const keys = { cert: `${section}.cert`, key: `${section}.key`, clientCa: `${section}.clientCa` } as const;
  const expected = {
    cert: "the server's certificate in PEM, then the intermediate certificates",
    key: "the private key of that certificate in PEM, without a passphrase",
    clientCa: "the certificates of the authorities of clients, in PEM",
  };
  return {
    paths: { [keys.cert]: paths.cert, [keys.key]: paths.key, [keys.clientCa]: paths.clientCa },
    parse(texts) {
      const { [keys.cert]: cert, [keys.key]: key, [keys.clientCa]: clientCa = null } = texts;
      const flaws: FileFlaw[] = [];
      const refuse = (at: keyof typeof expected, found: string) =>
        void flaws.push({ key: keys[at], found, expected: expected[at] });
      const leaf = parsePair(cert, key, {
        onCertificate: (found) => refuse("cert", found),
        onKey: (found) => refuse("key", found),
        mismatch: "a key that does not belong to the certificate",
      });
      const authorities = parseCertificates(clientCa ?? undefined, (found) => refuse("clientCa", found));
      for (const { ca } of authorities) if (!ca) refuse("clientCa", "a certificate of no authority");
      const handshake = { minVersion, ciphers: openSslList(ciphers), ...fixedOffer };
      if (flaws.length > 0 || cert === undefined || key === undefined || leaf === null) return { ok: false, flaws };
      const unusable = whyUnusable(leaf, ciphers, section, {
        ...{ cert, key, ...handshake },
        ...(clientCa === null ? {} : { ca: clientCa }),
      });
      if (unusable !== null) refuse("cert", unusable);
      if (flaws.length > 0) return { ok: false, flaws };
      const [validFromMs, expiresMs] = [leaf.validFromDate.getTime(), leaf.validToDate.getTime()];
      return { ok: true, value: { cert, key, clientCa, validFromMs, expiresMs, handshake } };
    },
  };
}

/** Why no handshake would succeed with a certificate and its key. Null: one would. */
function whyUnusable(
  leaf: X509Certificate,
  ciphers: TlsOffer["ciphers"],
  section: string,
  context: SecureContextOptions,
): string | null {
  try {
    createSecureContext(context);
    const isRsa = leaf.publicKey.asymmetricKeyType?.startsWith("rsa") ?? false;
    if (hasSuiteFor(isRsa, ciphers)) return null;
    return `a certificate ${isRsa ? "with" : "without"} an RSA key, and ${section}.ciphers has no suite of TLS 1.2 for it`;
  } catch (cause) {
    return openSslReason(cause);
  }
}

/** Of connections that the gateway opens; `section` is the one of the configuration that names the files. */
export function outboundTlsFiles(
  section: "upstream.tls" | "counters.redis.tls",
  paths: OutboundTlsPaths,
): FileGroup<SecureContext> {
  const keys = { ca: `${section}.ca`, cert: `${section}.cert`, key: `${section}.key` } as const;
  return {
    paths: { [keys.ca]: paths.ca, [keys.cert]: paths.cert, [keys.key]: paths.key },
    parse(texts) {
      const { [keys.ca]: ca, [keys.cert]: cert, [keys.key]: key } = texts;
      const flaws: FileFlaw[] = [];
      const refuse = (at: string, found: string, expected: string) => void flaws.push({ key: at, found, expected });
      parseCertificates(ca, (found) => refuse(keys.ca, found, "one or more in PEM"));
      const mismatch = "the key of another certificate";
      const own = `the one that belongs to ${keys.cert}`;
      parsePair(cert, key, {
        onCertificate: (found) => refuse(keys.cert, found, "one or more in PEM"),
        onKey: (found) => refuse(keys.key, found, found === mismatch ? own : "one in PEM, without a passphrase"),
        mismatch,
      });
      if (flaws.length > 0) return { ok: false, flaws };
      try {
        // Without `ca`, those of Node's own list are trusted.
        const given = Object.fromEntries(Object.entries({ ca, cert, key }).filter(([, text]) => text !== undefined));
        return { ok: true, value: createSecureContext({ ...given, minVersion: "TLSv1.2" }) };
      } catch (error) {
        // A key that is too short for OpenSSL, for example.
        const at = cert === undefined ? keys.ca : keys.cert;
        refuse(at, errorCode(error) ?? "OpenSSL refuses", "a certificate that OpenSSL accepts");
        return { ok: false, flaws };
      }
    },
  };
}

interface PairFlaws {
  readonly onCertificate: (found: string) => void;
  readonly onKey: (found: string) => void;
  /** Reported as a flaw of the key. */
  readonly mismatch: string;
}

/** Parses what is there of certificate and key. Returns the first certificate. */
function parsePair(
  cert: string | undefined,
  key: string | undefined,
  { onCertificate, onKey, mismatch }: PairFlaws,
): X509Certificate | null {
  let isBroken = false;
  const [leaf = null] = parseCertificates(cert, (found) => {
    isBroken = true;
    onCertificate(found);
  });
  const secret = key === undefined ? null : parsePrivateKey(key);
  if (typeof secret === "string") onKey(secret);
  else if (secret !== null && !isBroken && leaf?.checkPrivateKey(secret) === false) onKey(mismatch);
  return leaf;
}

function parseCertificates(pem: string | undefined, onFlaw: (found: string) => void): X509Certificate[] {
  if (pem === undefined) return [];
  // With what follows each, since a file that was cut off ends within one.
  const [, ...blocks] = pem.split("-----BEGIN CERTIFICATE-----").map((text) => `-----BEGIN CERTIFICATE-----${text}`);
  if (blocks.length === 0) onFlaw("no certificate");
  return blocks.flatMap((block, index) => {
    try {
      return [new X509Certificate(block)];
    } catch (cause) {
      onFlaw(`a certificate that cannot be read (number ${index + 1}: ${openSslReason(cause)})`);
      return [];
    }
  });
}

/** The key, or what is wrong with it. */
function parsePrivateKey(pem: string): KeyObject | string {
  if (!/-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----/.test(pem)) return "no private key";
  if (/-----BEGIN ENCRYPTED PRIVATE KEY-----|^Proc-Type: 4,ENCRYPTED/m.test(pem)) {
    return "a private key with a passphrase";
  }
  try {
    return createPrivateKey(pem);
  } catch (cause) {
    return `a private key that cannot be read (${openSslReason(cause)})`;
  }
}

/** OpenSSL's own words, which are from a closed list and quote nothing. */
function openSslReason(cause: unknown): string {
  const reason = cause instanceof Error && "reason" in cause ? cause.reason : undefined;
  return typeof reason === "string" ? reason : "it is damaged";
}

const day = 24 * 3600 * 1000;

/** What an operator should know about a valid certificate; null if there is nothing to say. */
export function certificateWarning({ validFromMs, expiresMs }: Validity, wallMs: number): string | null {
  if (wallMs >= expiresMs) return "has expired";
  if (wallMs < validFromMs) return "is not valid yet";
  const days = Math.floor((expiresMs - wallMs) / day);
  return days < 14 ? `expires in ${days === 1 ? "1 day" : `${days} days`}` : null;
}
