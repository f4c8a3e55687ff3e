// A gateway's listener with TLS, and what a client needs to trust it. One certificate serves a whole file of tests.
import { afterAll, beforeAll } from "vitest";
import { Authority, type Issued } from "./certificates.ts";
import type { Overrides } from "./gateway.ts";

export interface TlsListener {
  readonly ca: string;
  readonly issued: Issued;
  readonly overrides: Overrides;
}

/** Call at the top of a test file. */
export function useTls(): (overrides?: Overrides) => TlsListener {
  const open: (() => unknown)[] = [];
  let authority: Authority;
  let issued: Issued;
  beforeAll(() => {
    authority = new Authority((close) => void open.push(close));
    issued = authority.issue();
  });
  afterAll(async () => {
    for (const close of open) await close();
  });
  return (overrides = {}) => {
    const tls = { cert: issued.certFile, key: issued.keyFile, clientCa: null, http2: true };
    return { ca: authority.cert, issued, overrides: { ...overrides, listen: { ...overrides.listen, tls } } };
  };
}
