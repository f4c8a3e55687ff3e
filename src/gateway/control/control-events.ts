// Publishes the events of the admin API to those who listen. Changes of the upstream and the store are found by comparing their
// states, only while somebody listens.
import type { ControlEvent, RecentRequests, RuleControl, Status } from "../../admin/control-plane.ts";
import type { Clock } from "../../core/clock.ts";
import type { RuleKeeper } from "../../core/rules.ts";

/** How often states are compared while somebody listens. */
const lookEveryMs = 1_000;

/** How the upstream and the store are. */
export type States = Pick<Status, "upstream" | "store">;

interface EventSources {
  readonly clock: Pick<Clock, "wallMs">;
  readonly recent: RecentRequests | null;
  readonly rules: Pick<RuleKeeper, "onChange"> | null;
}

export class ControlEvents {
  readonly #options: EventSources;
  readonly #states: () => Promise<States>;
  readonly #control: RuleControl | null;
  readonly #listeners = new Set<(event: ControlEvent) => void>();
  #timer: NodeJS.Timeout | null = null;
  #unsubscribe: (() => void)[] = [];
  #seen: Record<"upstream" | "store", string> | null = null;

  constructor(options: EventSources, states: () => Promise<States>, control: RuleControl | null) {
    this.#options = options;
    this.#states = states;
    this.#control = control;
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
    const { clock, recent, rules } = this.#options;
    const now = (): string => isoTime(clock.wallMs());
    if (rules !== null) {
      this.#unsubscribe.push(
        rules.onChange(({ kind, rule }) => {
          const isGone = kind === "removed" || kind === "ended";
          const set = isGone ? [] : [this.#control?.find(rule.id)?.rule ?? []].flat();
          this.publish({ type: "rule", at: now(), set, removed: isGone ? [rule.id] : [] });
        }),
      );
    }
    if (recent !== null) {
      this.#unsubscribe.push(
        recent.subscribe((request, leftOut) => this.publish({ type: "refusal", at: now(), request, leftOut })),
      );
    }
    let isLooking = false;
    this.#timer = setInterval(async () => {
      if (isLooking) return;
      isLooking = true;
      await this.#look().finally(() => {
        isLooking = false;
      });
    }, lookEveryMs).unref();
    void this.#look();
  }

  async #look(): Promise<void> {
    const { upstream, store } = await this.#states();
    if (this.#timer === null) return;
    const at = isoTime(this.#options.clock.wallMs());
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

export function isoTime(wallMs: number): string {
  return new Date(wallMs).toISOString();
}
