// Connections over TLS for the proof of shared reads. Both ends share a key, so no certificate is needed.
import { randomBytes } from "node:crypto";
import { connect, createServer } from "node:tls";
import type { Net } from "./shared-reads-proof.ts";

export function makeSecureNet(): Net {
  const psk = randomBytes(32);
  // The second one is for TLS 1.2, to which an option of Node or a configuration of OpenSSL may limit this process.
  const ciphers = "TLS_AES_128_GCM_SHA256:PSK-AES128-GCM-SHA256";
  return {
    createServer: (options) => createServer({ ...options, ciphers, pskCallback: () => psk }),
    connect: (options) =>
      connect({
        ...options,
        ciphers,
        pskCallback: () => ({ psk, identity: "proof" }),
        // There is no certificate, whose names would be checked.
        checkServerIdentity: () => undefined,
      }),
    accepted: "secureConnection",
  };
}
