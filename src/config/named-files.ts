// The files that a configuration names, for whoever looks into them before the start: also those of a configuration that
// has mistakes elsewhere, so that all are told at once.
import type { TlsFiles } from "../core/tls.ts";
import type { UpstreamTlsSettings } from "../core/upstream.ts";
import type { IsSound } from "./config-error.ts";
import type { ParsedConfig } from "./schema.ts";

/** Absolute paths; null where none is named, or none that is sound. */
export interface NamedFiles {
  /** Null in the other modes as well. */
  readonly tokensFile: string | null;
  readonly secretsFile: string | null;
  readonly listenTls: Readonly<Record<keyof TlsFiles, string | null>>;
  readonly upstreamTls: Pick<UpstreamTlsSettings, "ca" | "cert" | "key">;
  /** Where a key was written, and the key, as the configuration's own mistakes begin. */
  readonly place: (key: string) => string;
}

export function namedFiles(
  { auth, extAuth, listen, upstream }: ParsedConfig,
  isSound: IsSound,
  absolute: (key: string, path: string) => string,
  place: (key: string) => string,
): NamedFiles {
  const path = (key: string, written: string | null): string | null =>
    isSound(key) && written !== null ? absolute(key, written) : null;
  const isListed = isSound("auth.mode") && auth.mode === "tokens";
  return {
    tokensFile: isListed ? path("auth.tokensFile", auth.tokensFile) : null,
    secretsFile: path("extAuth.secretsFile", extAuth.secretsFile),
    listenTls: {
      cert: path("listen.tls.cert", listen.tls.cert),
      key: path("listen.tls.key", listen.tls.key),
      clientCa: path("listen.tls.clientCa", listen.tls.clientCa),
    },
    upstreamTls: {
      ca: path("upstream.tls.ca", upstream.tls.ca),
      cert: path("upstream.tls.cert", upstream.tls.cert),
      key: path("upstream.tls.key", upstream.tls.key),
    },
    place,
  };
}
