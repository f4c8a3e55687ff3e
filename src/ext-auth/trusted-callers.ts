// Who may ask for decisions. Whoever may can name any client, so nobody may unless its address is listed or it shows a
// secret that is. Secrets are compared by digest, in constant time, and kept nowhere.
import { type Cidr, isWithin, parseIpAddress } from "../core/ip-address.ts";

/** The field, or the piece of metadata, that a secret is shown in. Lower case. */
export const secretField = "x-headgate-secret";

export interface TrustedCallersOptions {
  readonly networks: readonly Cidr[];
  /** Null: there are none. */
  readonly isSecret: ((text: string) => boolean) | null;
}

export class TrustedCallers {
  readonly #options: TrustedCallersOptions;

  constructor(options: TrustedCallersOptions) {
    this.#options = options;
  }

  /** Of a connection: the address of its other end. */
  includeAddress(address: string | undefined): boolean {
    const parsed = parseIpAddress(address ?? "");
    return parsed !== undefined && this.#options.networks.some((network) => isWithin(parsed, network));
  }

  /** Of a call: every value of the field. One that is given twice is none. */
  includeSecret(values: readonly string[]): boolean {
    const [secret] = values;
    if (secret === undefined || values.length !== 1) return false;
    return this.#options.isSecret?.(secret) ?? false;
  }
}
