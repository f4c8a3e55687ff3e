// The counters of the store that have to be forgotten, because somebody's counts were forgiven. Each is told until the store
// has answered: at once, when its shard is there again, and before anything else is told of what was admitted meanwhile.
import type { ForgetItem } from "./script-call.ts";
import type { Shard } from "./shard.ts";
import type { Timing } from "./store-clock.ts";

/** How many wait for an answer. Beyond, the oldest is given up; another gateway that has read of it may tell it. */
const mostPending = 10_000;
/** When a call without an answer is repeated. */
const againMs = 1_000;

interface Pending {
  readonly tag: string;
  readonly item: ForgetItem;
  /** Until this instant something may count that was admitted before. */
  readonly endsMs: number;
}

export class Forgets {
  readonly #timing: Timing;
  readonly #shardOf: (tag: string) => Shard | undefined;
  /** Resolves with whether it was answered. */
  readonly #send: (shard: Shard, items: readonly ForgetItem[]) => Promise<boolean>;
  /** By the key of the mark. */
  readonly #pending = new Map<string, Pending>();
  #timer: { cancel(): void } | null = null;
  #isClosed = false;

  constructor(
    timing: Timing,
    shardOf: (tag: string) => Shard | undefined,
    send: (shard: Shard, items: readonly ForgetItem[]) => Promise<boolean>,
  ) {
    this.#timing = timing;
    this.#shardOf = shardOf;
    this.#send = send;
  }

  /**
   * Leaves before anything that is asked of the shard from now on. `countsMs`: so long something may count that was admitted
   * before. The mark of another gateway stays for longer, or the counter would be emptied again.
   */
  add(tag: string, item: ForgetItem, countsMs: number): void {
    const endsMs = this.#timing.clock.monotonicMs() + countsMs;
    this.#pending.delete(item.markKey);
    this.#pending.set(item.markKey, { tag, item, endsMs });
    const [oldest] = this.#pending.keys();
    if (this.#pending.size > mostPending && oldest !== undefined) this.#pending.delete(oldest);
    const shard = this.#shardOf(tag);
    if (shard !== undefined && shard.state !== "away") void this.#tell(shard, [{ tag, item, endsMs }]);
  }

  /** Tells a shard all that it has not answered. Resolves when it has answered or failed. */
  async tellAll(shard: Shard): Promise<void> {
    const nowMs = this.#timing.clock.monotonicMs();
    const due: Pending[] = [];
    for (const [key, pending] of this.#pending) {
      if (nowMs >= pending.endsMs) this.#pending.delete(key);
      else if (this.#shardOf(pending.tag) === shard) due.push(pending);
    }
    await this.#tell(shard, due);
  }

  close(): void {
    this.#isClosed = true;
    this.#timer?.cancel();
  }

  async #tell(shard: Shard, due: readonly Pending[]): Promise<void> {
    if (due.length === 0) return;
    const isAnswered = await this.#send(
      shard,
      due.map(({ item }) => item),
    );
    for (const { item } of isAnswered ? due : [])
      if (this.#pending.get(item.markKey)?.item === item) this.#pending.delete(item.markKey);
    if (!isAnswered) this.#tellLater();
  }

  /** A shard that is away then is told when it is back. */
  #tellLater(): void {
    if (this.#isClosed) return;
    this.#timer ??= this.#timing.timers.after(againMs, () => {
      this.#timer = null;
      const shards = new Set(Array.from(this.#pending.values(), ({ tag }) => this.#shardOf(tag)));
      for (const shard of shards) if (shard !== undefined && shard.state !== "away") void this.tellAll(shard);
    });
  }
}
