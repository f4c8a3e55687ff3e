// Resolves the upstream's names at intervals, by the system's rules, with all A and AAAA records, one name at a time. While
// a name cannot be resolved, its last known addresses stay in use, and the failure is reported once.
import { lookup } from "node:dns/promises";
import { isIP } from "node:net";
import { asError } from "../core/failure.ts";
import type { HostPort } from "../core/ip-address.ts";
import type { LookupEvents } from "../core/upstream.ts";

type ResolveName = (name: string) => Promise<readonly string[]>;

export interface NameOptions {
  readonly resolve: ResolveName;
  readonly everyMs: number;
}

interface NameLookupOptions extends NameOptions, LookupEvents {
  readonly targets: readonly HostPort[];
  readonly onAddresses: (addresses: readonly HostPort[]) => void;
}

/** With /etc/hosts and search domains; often enough that a change is seen within half a minute. */
export const namesBySystem: NameOptions = {
  resolve: async (name) => (await lookup(name, { all: true })).map(({ address }) => address),
  everyMs: 10_000,
};

/** A name may have thousands; more addresses than this would mean connections that are hardly used. */
const maxAddresses = 256;
/** After a failure: a gateway that starts before the upstream's name exists need not wait for the next round. */
const retryMs = 1_000;

export class NameLookup {
  readonly #options: NameLookupOptions;
  readonly #names: readonly string[];
  /** The last known addresses of each name. */
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

  /** The number of failed lookups, and whether the last lookup of every name succeeded. */
  figures(): { readonly failures: number; readonly isCurrent: boolean } {
    return { failures: this.#failures, isCurrent: this.#failing.size === 0 };
  }

  /** Resolves when every name has been looked up once. */
  async start(): Promise<void> {
    this.#report();
    if (this.#names.length === 0) return;
    await this.#lookUpAll();
    this.#schedule();
  }

  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#timer);
  }

  #schedule(): void {
    if (this.#isClosed) return;
    const { everyMs } = this.#options;
    const waitMs = this.#failing.size > 0 ? Math.min(retryMs, everyMs) : everyMs;
    this.#timer = setTimeout(async () => {
      await this.#lookUpAll();
      this.#schedule();
    }, waitMs).unref();
  }

  async #lookUpAll(): Promise<void> {
    for (const name of this.#names) {
      if (this.#isClosed) return;
      await this.#lookUp(name);
    }
    if (!this.#isClosed) this.#report();
  }

  async #lookUp(name: string): Promise<void> {
    const { resolve, onLookupFailed, onLookupRecovered } = this.#options;
    try {
      const addresses = (await resolve(name)).filter((address) => isIP(address) !== 0);
      if (addresses.length === 0) throw new Error("The name has no address.");
      this.#found.set(name, addresses);
      if (this.#failing.delete(name)) onLookupRecovered(name);
    } catch (error) {
      this.#failures += 1;
      if (this.#failing.has(name) || this.#isClosed) return;
      this.#failing.add(name);
      onLookupFailed(name, asError(error), this.#found.has(name));
    }
  }

  #report(): void {
    const addresses = new Map<string, HostPort>();
    for (const { host, port } of this.#options.targets) {
      for (const address of isIP(host) === 0 ? (this.#found.get(host) ?? []) : [host]) {
        if (addresses.size < maxAddresses) addresses.set(`${address} ${port}`, { host: address, port });
      }
    }
    // The order of a name's addresses changes at random and means nothing here.
    const known = [...addresses.keys()].sort().join();
    if (known === this.#known) return;
    this.#known = known;
    this.#options.onAddresses([...addresses.values()]);
  }
}
