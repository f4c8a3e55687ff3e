// Forgives somebody's counts in all threads of this process and, where gateways share a store, at all gateways. What is
// forgiven is forgotten in the order of the log: once in the table that threads share, and by each thread what it holds.
import { InTurn } from "../core/in-turn.ts";
import { type ForgivenKey, inPortions } from "../core/rules.ts";
import type { ForgivenName } from "../limits/forgive.ts";
import { createKeyFinder } from "../limits/named-keys.ts";
import type { ForgivenNotice, SharedRules } from "../limits/store/shared-rules.ts";
import type { Workers } from "./workers.ts";

export interface Forgave extends ForgivenName {
  /** False: the store is away, and the other gateways hear of it when it is back. Null: gateways share nothing. */
  readonly isShared: boolean | null;
}

type ForgivingWorkers = Pick<Workers, "settings" | "forgive">;
type ForgivingLog = Pick<SharedRules, "forgive" | "readNow">;

export class Forgiving {
  readonly #begun = Promise.withResolvers<ForgivingWorkers>();
  /** Null before `begin` too: nothing waits for it then, because a thread that starts holds nothing. */
  #log: ForgivingLog | null = null;
  /** One after the other, in the order of the log. */
  readonly #turn = new InTurn();
  /** Up to which position in the log all that was forgiven has been taken, and is forgotten. */
  #takenPosition = 0;
  #donePosition = 0;
  /** Of the names that somebody here forgives, what was forgotten; undefined until then. */
  readonly #own = new Map<ForgivenKey, ForgivenName | null | undefined>();

  /** What was taken before is forgotten now. Must be called once. `log`: null if gateways share nothing. */
  begin(workers: ForgivingWorkers, log: ForgivingLog | null = null): void {
    this.#log = log;
    this.#begun.resolve(workers);
  }

  /** Resolves when every thread has forgotten it; with null for a name that is none. `name`: canonical, as in rules. */
  async forgive(name: ForgivenKey): Promise<Forgave | null> {
    const { settings } = await this.#begun.promise;
    const { ipv6Prefix } = settings.clientAddress;
    if (createKeyFinder(name, { ipv6Prefix, listed: null, routes: [] }) === null) return null;
    // The log hands back this very object.
    const own = { ...name };
    this.#own.set(own, undefined);
    try {
      const isShared = this.#log === null ? null : await this.#log.forgive(own);
      if (isShared === null) await this.take([{ name: own, seq: 0 }], this.#takenPosition);
      await this.#turn.over();
      const forgiven = this.#own.get(own);
      if (forgiven === undefined) throw new Error("the counts could not be forgotten");
      return forgiven && { ...forgiven, isShared };
    } finally {
      this.#own.delete(own);
    }
  }

  /** Forgets what somebody has forgiven here or elsewhere. Afterwards this gateway knows every entry up to `logPosition`. */
  take(forgiven: readonly ForgivenNotice[], logPosition: number): Promise<void> {
    if (forgiven.length === 0 && logPosition === this.#takenPosition) return Promise.resolve();
    this.#takenPosition = logPosition;
    return this.#turn.do(() => this.#forget(forgiven, logPosition));
  }

  /** Reads what was forgiven elsewhere until now. Resolves when every thread has forgotten it, or if it cannot be read. */
  async read(): Promise<void> {
    if (this.#log === null) return;
    await this.#log.readNow();
    await this.#turn.over();
  }

  /** Resolves when every thread has forgotten what was taken so far. */
  async taken(): Promise<void> {
    await this.#turn.over();
  }

  async #forget(forgiven: readonly ForgivenNotice[], logPosition: number): Promise<void> {
    const workers = await this.#begun.promise;
    for (const portion of inPortions(forgiven)) {
      const forgotten = await workers.forgive(portion, this.#donePosition);
      for (const [i, { name }] of portion.entries()) if (this.#own.has(name)) this.#own.set(name, forgotten[i] ?? null);
    }
    if (logPosition !== this.#donePosition) await workers.forgive([], logPosition);
    this.#donePosition = logPosition;
  }
}
