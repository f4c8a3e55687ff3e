// The events of the admin API: changes of rules, a sample of refusals, and changes of the upstream and the store.
import type { ControlEvent, RecentRequests, RuleControl, Status } from "../../admin/control-plane.ts";
import type { WallClock } from "../../core/clock.ts";
import type { RuleBook } from "../rule-book.ts";

/** How often states are compared while somebody listens. */
const lookEveryMs = 1_000;

/** How the upstream and the store are. */
export type States = Pick<Status, "upstream" | "store">;

interface EventSources {
  readonly clock: WallClock;
  readonly recent: RecentRequests;
  readonly rules: RuleBook;
  readonly control: RuleControl;
  readonly states: () => States;
}

/**
 * Publishes the events of the admin API to those who listen. Changes of the upstream and the store are found by
 * comparing their states, only while somebody listens.
 */
export class ControlEvents {
  readonly #sources: EventSources;
  readonly #listeners = new Set<(event: ControlEvent) => void>();
  #timer: NodeJS.Timeout | null = null;
  #unsubscribe: (() => void)[] = [];
  #seen: Record<"upstream" | "store", string> | null = null;

  constructor(sources: EventSources) {
    this.#sources = sources;
  }

  subscribe(onEvent: (event: ControlEvent) => void): () => void {
    this.#listeners.add(onEvent);
    if (this.#listeners.size === 1) this.#begin();
    return () => {
      this.#listeners.delete(onEvent);
      if (this.#listeners.size === 0) this.close();
    };
  }

  publish(event: ControlEvent): void {
    for (const listener of [...this.#listeners]) listener(event);
  }

  close(): void {
    if (this.#timer !== null) clearInterval(this.#timer);
    this.#timer = null;
    this.#seen = null;
    for (const unsubscribe of this.#unsubscribe.splice(0)) unsubscribe();
  }

  #begin(): void {
    const { recent, rules, control } = this.#sources;
    this.#unsubscribe = [
      rules.onChange(({ kind, rule }) => {
        const isGone = kind === "removed" || kind === "ended";
        const set = isGone ? [] : [control.find(rule.id)?.rule ?? []].flat();
        this.publish({ type: "rule", at: this.#now(), set, removed: isGone ? [rule.id] : [] });
      }),
      recent.subscribe((request, leftOut) => this.publish({ type: "refusal", at: this.#now(), request, leftOut })),
    ];
    this.#timer = setInterval(() => this.#look(), lookEveryMs).unref();
    this.#look();
  }

  #now(): string {
    return new Date(this.#sources.clock.wallMs()).toISOString();
  }

  #look(): void {
    const { upstream, store } = this.#sources.states();
    const at = this.#now();
    // The number of requests in progress changes all the time, and is no event.
    const addresses = upstream.addresses.map(({ address, state }) => [address, state]);
    const now = {
      upstream: JSON.stringify([upstream.state, upstream.reason, addresses]),
      store: JSON.stringify(store),
    };
    const before = this.#seen;
    this.#seen = now;
    if (before === null) return;
    if (now.upstream !== before.upstream) this.publish({ type: "upstream", at, upstream });
    if (now.store !== before.store) this.publish({ type: "store", at, store });
  }
}
