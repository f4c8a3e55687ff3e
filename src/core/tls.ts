// TLS on the listener: its files, the certificate in use, and the reasons why a handshake fails.

/** Absolute paths of PEM files. */
export interface TlsFiles {
  /** The certificate of the server, then the intermediate certificates. */
  readonly cert: string;
  readonly key: string;
  /** The authorities of the certificates that clients must present; null: clients need none. */
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
  "timeout",
  "not_tls", // the client sent something else, mostly plain HTTP
  "incompatible", // no version, cipher or protocol in common
  "client_certificate", // none, or none of an authority in clientCa
  "refused", // by the client with an alert, mostly because it does not trust the certificate
  "closed", // by the client before the end of the handshake, perhaps without a byte
  "other",
] as const;

export type TlsFailure = (typeof tlsFailures)[number];
