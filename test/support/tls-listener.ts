// A gateway's listener with TLS, and what a client needs to trust it. One certificate serves all files of a worker process.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll } from "vitest";
import { Authority, type Issued } from "./certificates.ts";
import { useSharedCleanup } from "./cleanup.ts";
import type { Overrides } from "./gateway.ts";
import { scratchFolder } from "./scratch.ts";

export interface TlsListener {
  readonly ca: string;
  readonly issued: Issued;
  readonly overrides: Overrides;
}

/** Call at the top of a test file. */
export function useTls(): (overrides?: Overrides) => TlsListener {
  const cleanup = useSharedCleanup();
  let issued: Issued;
  beforeAll(() => {
    const folder = scratchFolder(cleanup);
    const { cert, key } = texts();
    issued = { cert, key, certFile: join(folder, "cert.pem"), keyFile: join(folder, "key.pem") };
    writeFileSync(issued.certFile, cert);
    writeFileSync(issued.keyFile, key);
  });
  return (overrides = {}) => {
    const tls = { cert: issued.certFile, key: issued.keyFile, clientCa: null, http2: true };
    return { ca: texts().ca, issued, overrides: { ...overrides, listen: { ...overrides.listen, tls } } };
  };
}

let made: { readonly ca: string; readonly cert: string; readonly key: string } | null = null;

/** Made once, by three calls of openssl. */
function texts(): NonNullable<typeof made> {
  if (made !== null) return made;
  const open: (() => unknown)[] = [];
  const authority = new Authority((close) => void open.push(close));
  const { cert, key } = authority.issue();
  for (const close of open) close();
  made = { ca: authority.cert, cert, key };
  return made;
}
