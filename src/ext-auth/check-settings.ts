// What the listeners for checks take from the configuration. A reload replaces it as a whole: each connection and each
// call uses what is current when it begins.
import { type ClientAddressRules, readPeer } from "../core/client-address.ts";
import type { DenyStatus } from "../core/settings.ts";
import type { TrustedCallers } from "./trusted-callers.ts";

export interface CheckSettings {
  readonly callers: TrustedCallers;
  readonly clientAddress: ClientAddressRules;
  readonly denyStatus: DenyStatus;
  /** The policies that a question for a quota may name. */
  readonly policyNames: readonly string[];
  readonly headTimeoutMs: number;
  readonly keepAliveTimeoutMs: number;
  /** Of trusted callers, by listener. */
  readonly maxConnections: { readonly http: number; readonly grpc: number };
}

/** Peers with the same key share places. */
export function peerKey({ clientAddress }: CheckSettings, address: string | undefined): string {
  return readPeer(address, clientAddress).key;
}
