// The error of a TLS handshake with the upstream whose certificate is refused.
import { errorCode } from "../core/failure.ts";

/** The upstream's certificate is not trusted. */
export class TlsRefused extends Error {
  /** A code such as CERT_HAS_EXPIRED. */
  readonly why: string;

  constructor(cause: Error) {
    super("The upstream's certificate was refused.", { cause });
    this.why = errorCode(cause) ?? "ERR_TLS_CERT";
  }
}
