// Gateways with one real store, as far as a test of the store needs them: with rules, forgiveness and counters, and one of the
// release before there were rules and forgiveness, which has counters alone.
import { readFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { systemClock } from "../../../src/core/clock.ts";
import type { Rule } from "../../../src/core/rules.ts";
import type { StoreLink } from "../../../src/core/store-link.ts";
import { PolicyLimiter } from "../../../src/limits/limiter.ts";
import { openRedisLink } from "../../../src/limits/store/redis/link.ts";
import { rulesScript } from "../../../src/limits/store/rules-script.ts";
import { storeScript } from "../../../src/limits/store/script.ts";
import { type ForgivenNotice, SharedRules } from "../../../src/limits/store/shared-rules.ts";
import { Store } from "../../../src/limits/store/store.ts";
import type { StoreOptions } from "../../../src/limits/store/store-options.ts";
import type { Cleanup } from "../../support/cleanup.ts";
import { askedRequest, limitedRequest } from "../../support/limited-request.ts";
import { slidingPolicy } from "../../support/policy.ts";
import { realTimers as timers } from "../../support/timers.ts";
import { placeSecret, smallTable } from "../small-table.ts";
import { settingsOf } from "./redis/watched-link.ts";

/** All that is asked for is asked for it. */
const client = "192.0.2.1";
export const limit = 10;
export const replicas = 3;

const settings = {
  prefix: "headgate:",
  waitMs: 500,
  lease: { durationMs: 1000, most: 1000 },
  onFailure: "local",
  replicas,
  maxKeys: 1000,
} as const;

function linkOf(port: number, script: string): StoreLink {
  return openRedisLink(settingsOf(port), {
    script,
    readFile: (path) => readFile(path, "utf8"),
    connectTimeoutMs: 5_000,
  });
}

/** What every release has. */
class Counting {
  readonly store: Store;
  protected readonly limiter: PolicyLimiter;

  constructor(cleanup: Cleanup, name: string, options: Pick<StoreOptions, "link" | "readForgiven">) {
    const table = smallTable();
    this.store = new Store({
      ...{ settings, clock: systemClock, timers, table, secret: placeSecret },
      ...{ gateway: name.padEnd(12, "-"), thread: "-".repeat(10) },
      ...{ onSecret() {}, onChange() {}, onGone() {}, onIdentity() {}, onAnswered() {}, onWaited() {} },
      ...options,
    });
    const policies = [slidingPolicy({ limit, windowMs: 600_000 })];
    this.limiter = new PolicyLimiter(policies, { clock: systemClock, table, store: this.store });
    this.store.open();
    cleanup(() => this.store.close());
  }

  get isUp(): boolean {
    return this.store.figures().state === "up";
  }

  /** Asks so often, one after the other. Returns how many were admitted. */
  async ask(count: number): Promise<number> {
    let admitted = 0;
    for (let i = 0; i < count; i += 1) {
      const { request, head } = limitedRequest({ client });
      const { outcome } = await this.limiter.ask(askedRequest(request, head, systemClock.monotonicMs()), "anonymous");
      if (outcome === "admitted") admitted += 1;
    }
    return admitted;
  }
}

export class SharingGateway extends Counting {
  readonly rules = new Map<string, Rule>();
  readonly notices: unknown[] = [];
  readonly shared: SharedRules;
  /** Resolves when it has forgotten what it was told to forget. */
  #forgotten: Promise<unknown> = Promise.resolve();

  /** `name`: a few letters. */
  constructor(cleanup: Cleanup, port: number, name: string) {
    super(cleanup, name, {
      link: linkOf(port, storeScript),
      readForgiven: () => this.shared.readNow().then(() => this.#forgotten),
    });
    this.shared = new SharedRules({
      ...{ link: linkOf(port, rulesScript), clock: systemClock, timers, prefix: settings.prefix, origin: name },
      onRules: ({ set, removed }, all) => {
        if (all) this.rules.clear();
        for (const id of removed) this.rules.delete(id);
        for (const rule of set) this.rules.set(rule.id, rule);
      },
      onForgiven: (forgiven, place) => {
        this.#forgotten = this.#forgotten.then(() => this.#forget(forgiven, place));
      },
      onTakenBack: (notice) => void this.notices.push(notice),
      onState() {},
    });
    this.shared.open();
    cleanup(() => this.shared.close());
  }

  override get isUp(): boolean {
    return super.isUp && this.shared.figures().state === "read";
  }

  set(id: string, note: string) {
    const about = { kind: "client" as const, value: client };
    const nowMs = systemClock.wallMs();
    const times = { setMs: nowMs, endsMs: nowMs + 600_000 };
    const rule = { id, about, action: "block" as const, policy: null, limit: null, ...times, note, setBy: "socket" };
    return this.shared.put({ ...rule, revision: 0 }, "any");
  }

  async forgive(): Promise<boolean> {
    const isShared = await this.shared.forgive({ kind: "client", value: client });
    await this.#forgotten;
    return isShared;
  }

  get held(): string {
    return [...this.rules.values()]
      .map(({ id, note, revision }) => `${id} ${note} ${revision}`)
      .sort()
      .join(", ");
  }

  async #forget(forgiven: readonly ForgivenNotice[], place: number): Promise<void> {
    const context = { ipv6Prefix: 64, listed: null, routes: [] };
    for (const { name, seq } of forgiven) await this.limiter.forgive(name, context, seq);
    this.store.forgivenUntil(place);
  }
}

// A gateway of the release before: its script, its calls, and nothing that it could read of rules and forgiveness.

const oldScript = readFileSync(new URL("./script-before-forgiveness.lua", import.meta.url), "utf8");

export class OldGateway extends Counting {
  constructor(cleanup: Cleanup, port: number, name: string) {
    const link = linkOf(port, oldScript);
    const call = link.call.bind(link);
    link.call = (shard, keys, args, answered) => {
      const before = withoutForgiveness(keys, args);
      call(shard, before.keys, before.args, (reply, failure) => {
        answered(Array.isArray(reply) ? withLeased(reply, before.args) : reply, failure);
      });
    };
    super(cleanup, name, { link });
  }
}

/** Then, an answer about a counter did not say how long ago others were granted units. */
function withLeased(reply: readonly unknown[], args: readonly string[]): readonly unknown[] {
  const [time, ...values] = reply;
  // Such a gateway asks about counters alone, but for the list of gateways and the secret, whose calls have one item.
  if (args[0] === "g" || args[0] === "v") return reply;
  return [time, ...values.flatMap((value, i) => (i % 6 === 5 ? [-1, value] : [value]))];
}

/** So many arguments each item has at least, with its letter. */
const lengths: Readonly<Record<string, number>> = { g: 4, v: 2, s: 6, S: 6, c: 7, C: 7, n: 5, N: 5 };

/** Then, what is told of a counter had no mark, and no place of the log. */
function withoutForgiveness(keys: readonly string[], args: readonly string[]) {
  const kept: { readonly keys: string[]; readonly args: string[] } = { keys: [], args: [] };
  let [at, keyAt] = [0, 0];
  const keep = (count: number): void => {
    kept.args.push(...args.slice(at, at + count));
    at += count;
  };
  while (keyAt < keys.length) {
    kept.keys.push(keys[keyAt] ?? "");
    keyAt += 1;
    const letter = args[at] ?? "";
    const length = lengths[letter];
    if (length === undefined) throw new Error(`a gateway of then does not know ${letter}`);
    keep(length);
    if (!"scn".includes(letter)) continue;
    keep(2);
    keep(1 + 4 * Number(args[at]));
    if (args[at] === "-1") keep(1);
    else {
      keep(2);
      at += 1;
      keyAt += 1;
    }
  }
  return kept;
}
