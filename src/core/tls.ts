// TLS on the listener, as the rest of the gateway sees it: which files it is made from, what is in use, and the closed
// set of ways a handshake can fail.

/** Absolute paths of PEM files. */
export interface TlsFiles {
  /** The certificate of the server, then those that vouch for it. */
  readonly cert: string;
  readonly key: string;
  /** The authorities of clients' certificates, which are required then; null asks for none. */
  readonly clientCa: string | null;
}

/** TLS on the listener. */
export interface ListenerTls extends TlsFiles {
  /** Whether HTTP/2 is offered beside HTTP/1.1. */
  readonly http2: boolean;
}

export interface CertificateInUse {
  /** Unix milliseconds; clients refuse it from then on. */
  readonly expiresMs: number;
  /** False while the files are away or wrong, and the certificate from before is in use. */
  readonly isCurrent: boolean;
}

export const tlsFailures = [
  "timeout", // did not end in time
  "not_tls", // something else was sent, plain HTTP most of the time
  "incompatible", // no version, cipher or protocol in common
  "client_certificate", // none, or one that nobody vouches for
  "refused", // the client says so, because of the certificate most of the time
  "closed", // the client left before the end, perhaps without a byte
  "other",
] as const;

export type TlsFailure = (typeof tlsFailures)[number];
