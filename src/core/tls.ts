// TLS on the listener as other parts know it: its files, the certificate in use, and the closed set of ways in which a handshake
// fails.

/** Absolute paths of PEM files. */
export interface TlsFiles {
  /** The certificate of the server, then the intermediate certificates. */
  readonly cert: string;
  readonly key: string;
  /** The authorities of clients' certificates, which are then required; null asks for none. */
  readonly clientCa: string | null;
}

export interface ListenerTls extends TlsFiles {
  /** Whether HTTP/2 is offered beside HTTP/1.1. */
  readonly http2: boolean;
}

/** The texts of the files, in PEM. */
export interface Certificate extends TlsFiles {
  /** Unix milliseconds. */
  readonly validFromMs: number;
  /** Unix milliseconds, exclusive. */
  readonly expiresMs: number;
}

export interface CertificateInUse extends Pick<Certificate, "expiresMs"> {
  /** False while the files are missing or wrong, and an earlier certificate is in use. */
  readonly isCurrent: boolean;
}

export const tlsFailures = [
  "timeout", // did not end in time
  "not_tls", // something else was sent, mostly plain HTTP
  "incompatible", // no version, cipher or protocol in common
  "client_certificate", // none, or one of no authority in clientCa
  "refused", // by an alert of the client, mostly because it does not trust the certificate
  "closed", // the client left before the end, perhaps without a byte
  "other",
] as const;

export type TlsFailure = (typeof tlsFailures)[number];
