// The callers that may ask for checks. A caller can name any client, so none may ask unless its address is listed or it
// shows a listed secret. Secrets are compared by digest, in constant time, and not kept. And what else the listeners
// for checks take from the configuration.

import type { ClientAddressRules } from "../core/client-address.ts";
import { type HeaderList, headerValues } from "../core/headers.ts";
import type { HeadBounds } from "../core/http-bounds.ts";
import { parseIpAddress } from "../core/ip-address.ts";
import type { NetworkSet } from "../core/network-set.ts";
import type { DenyStatus } from "../core/settings.ts";

/** The field, or the piece of gRPC metadata, that carries a secret. Lower case. */
const secretField = "x-headgate-secret";

interface TrustedCallersOptions {
  readonly networks: NetworkSet;
  /** Null: there are no secrets. */
  readonly isSecret: ((text: string) => boolean) | null;
  /** Called at most once: the first calls were all refused. `caller` is the address that most of them came from. */
  readonly onFirstCallsRefused: (caller: string, calls: number) => void;
}

/** After so many refused calls, and no accepted one, the configuration is probably wrong. */
const firstCalls = 10;

export class TrustedCallers {
  readonly #options: TrustedCallersOptions;
  /** The addresses of the first calls, while all were refused; null once one was accepted or `firstCalls` are over. */
  #firstRefused: string[] | null = [];
  /** Most calls come from an address that has just called. */
  #lastAddress: string | undefined = undefined;
  #isLastIncluded = false;

  constructor(options: TrustedCallersOptions) {
    this.#options = options;
  }

  /** Whether a call may ask: by the address of its connection, or by the one secret among its fields. */
  admits(address: string | undefined, rawHeaders: HeaderList): boolean {
    const isAdmitted = this.include(address, rawHeaders);
    if (this.#firstRefused !== null) this.#noteFirst(this.#firstRefused, isAdmitted, address ?? "");
    return isAdmitted;
  }

  /** The same without counting the call among the first ones. */
  include(address: string | undefined, rawHeaders: HeaderList): boolean {
    return this.includeAddress(address) || this.#includeSecret(headerValues(rawHeaders, secretField));
  }

  includeAddress(address: string | undefined): boolean {
    if (address === this.#lastAddress) return this.#isLastIncluded;
    const parsed = parseIpAddress(address ?? "");
    this.#lastAddress = address;
    this.#isLastIncluded = parsed !== undefined && this.#options.networks.has(parsed);
    return this.#isLastIncluded;
  }

  /** A secret that is given twice counts as none. */
  #includeSecret([secret, another]: readonly string[]): boolean {
    if (secret === undefined || another !== undefined) return false;
    return this.#options.isSecret?.(secret) ?? false;
  }

  #noteFirst(refused: string[], isAdmitted: boolean, address: string): void {
    if (!isAdmitted && refused.push(address) < firstCalls) return;
    this.#firstRefused = null;
    if (!isAdmitted) this.#options.onFirstCallsRefused(mostFrequent(refused), firstCalls);
  }
}

function mostFrequent(addresses: readonly string[]): string {
  const count = (address: string): number => addresses.filter((other) => other === address).length;
  return addresses.reduce((most, address) => (count(address) > count(most) ? address : most), addresses[0] ?? "");
}

/**
 * What the listeners for checks take from the configuration. A reload replaces it as a whole: each connection and each
 * call uses what is current when it begins.
 */
export interface CheckSettings {
  readonly callers: TrustedCallers;
  readonly clientAddress: ClientAddressRules;
  readonly denyStatus: DenyStatus;
  /** The policies that a question for a quota may name. */
  readonly policyNames: readonly string[];
  /** Of calls. */
  readonly headBounds: HeadBounds;
  readonly headTimeoutMs: number;
  readonly keepAliveTimeoutMs: number;
  /** Of trusted callers, by listener. */
  readonly maxConnections: { readonly http: number; readonly grpc: number };
}
