// The addresses behind the names of the upstream, asked for again and again: with all their A and AAAA records, by the
// system's rules, one name at a time, beside the traffic. What was known last stays in use while a name cannot be looked
// up, which is told once.
import { lookup } from "node:dns/promises";
import { isIP } from "node:net";
import { asError } from "../core/failure.ts";
import type { UpstreamTarget } from "../core/upstream.ts";
import type { Address } from "./endpoint.ts";

export type ResolveName = (name: string) => Promise<readonly string[]>;

export interface NameOptions {
  readonly resolve: ResolveName;
  readonly everyMs: number;
}

export interface NameLookupOptions extends NameOptions {
  readonly targets: readonly UpstreamTarget[];
  readonly onAddresses: (addresses: readonly Address[]) => void;
  /** It could be looked up before, or was not tried yet; `isKnown`: there are addresses from before, which stay. */
  readonly onFailed: (name: string, error: Error, isKnown: boolean) => void;
  readonly onRecovered: (name: string) => void;
}

/** Of /etc/hosts, search domains and all; often enough for a change to be seen within half a minute. */
export const namesBySystem: NameOptions = {
  resolve: async (name) => (await lookup(name, { all: true })).map(({ address }) => address),
  everyMs: 10_000,
};

/** A name may have thousands; beyond this they would be connections nobody uses. */
const maxAddresses = 256;
/** After a failure: whoever starts before its upstream's name exists does not wait for the next round. */
const retryMs = 1_000;

export class NameLookup {
  readonly #options: NameLookupOptions;
  readonly #names: readonly string[];
  /** What each name was found to be last. */
  readonly #found = new Map<string, readonly string[]>();
  readonly #failing = new Set<string>();
  #known = "";
  #failures = 0;
  #timer: NodeJS.Timeout | undefined;
  #isClosed = false;

  constructor(options: NameLookupOptions) {
    this.#options = options;
    this.#names = [...new Set(options.targets.map(({ host }) => host).filter((host) => isIP(host) === 0))];
  }

  /** Lookups that failed so far, and whether one of the names could not be looked up last time. */
  figures(): { readonly failures: number; readonly isCurrent: boolean } {
    return { failures: this.#failures, isCurrent: this.#failing.size === 0 };
  }

  /** Resolves when every name was asked for once. */
  async start(): Promise<void> {
    this.#tell();
    if (this.#names.length === 0) return;
    await this.#round();
    this.#later();
  }

  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#timer);
  }

  #later(): void {
    if (this.#isClosed) return;
    const { everyMs } = this.#options;
    const waitMs = this.#failing.size > 0 ? Math.min(retryMs, everyMs) : everyMs;
    this.#timer = setTimeout(async () => {
      await this.#round();
      this.#later();
    }, waitMs).unref();
  }

  async #round(): Promise<void> {
    for (const name of this.#names) {
      if (this.#isClosed) return;
      await this.#ask(name);
    }
    if (!this.#isClosed) this.#tell();
  }

  async #ask(name: string): Promise<void> {
    const { resolve, onFailed, onRecovered } = this.#options;
    try {
      const addresses = (await resolve(name)).filter((address) => isIP(address) !== 0);
      if (addresses.length === 0) throw new Error("The name has no address.");
      this.#found.set(name, addresses);
      if (this.#failing.delete(name)) onRecovered(name);
    } catch (error) {
      this.#failures += 1;
      if (this.#failing.has(name) || this.#isClosed) return;
      this.#failing.add(name);
      onFailed(name, asError(error), this.#found.has(name));
    }
  }

  #tell(): void {
    const addresses = new Map<string, Address>();
    for (const { host, port } of this.#options.targets) {
      for (const address of isIP(host) === 0 ? (this.#found.get(host) ?? []) : [host]) {
        if (addresses.size < maxAddresses) addresses.set(`${address} ${port}`, { host: address, port });
      }
    }
    // The order in which a name's addresses come is drawn anew each time, and means nothing here.
    const known = [...addresses.keys()].sort().join();
    if (known === this.#known) return;
    this.#known = known;
    this.#options.onAddresses([...addresses.values()]);
  }
}
