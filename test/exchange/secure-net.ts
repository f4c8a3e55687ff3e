// Connections over TLS for the tests of shared reads. Both ends share a key, so no certificate is needed.
import { randomBytes } from "node:crypto";
import { connect, createServer } from "node:tls";
import type { Net } from "../../src/exchange/prove-sockets.ts";

export function makeSecureNet(): Net {
  const psk = randomBytes(32);
  const ciphers = "TLS_AES_128_GCM_SHA256";
  return {
    createServer: (options) => createServer({ ...options, ciphers, pskCallback: () => psk }),
    connect: (options) =>
      connect({
        ...options,
        ciphers,
        pskCallback: () => ({ psk, identity: "test" }),
        // There is no certificate, whose names would be checked.
        checkServerIdentity: () => undefined,
      }),
  };
}
