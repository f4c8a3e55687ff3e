// TLS on the listener: its files, and the certificate in use.

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
