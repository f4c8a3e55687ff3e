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
import type { Item } from "../../../src/limits/store/script-call.ts";
import { type ForgivenNotice, SharedRules } from "../../../src/limits/store/shared-rules.ts";
import { Store } from "../../../src/limits/store/store.ts";
import type { StoreOptions } from "../../../src/limits/store/store-options.ts";
import { readCall } from "../../simulation/script-wire.ts";
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
      const { items, requests } = readCall(keys, args);
      if (requests.length > 0) throw new Error("a gateway of then asks for one counter at a time");
      const before = callOfThen(items);
      call(shard, before.keys, before.args, (reply, failure) => {
        answered(Array.isArray(reply) ? answerOfNow(reply, items) : reply, failure);
      });
    };
    super(cleanup, name, { link });
  }
}

const lettersOfThen = { sliding: "s", calendar: "c", concurrency: "n" } as const;

/** Then, what is told of a counter had no mark, and no place of the log; and units were asked for instead of requests. */
function callOfThen(items: readonly Item[]): { keys: string[]; args: string[] } {
  const args = items.flatMap((item): (string | number)[] => {
    if (item.item === "gateways") return ["g", item.gateway, item.silenceUs, item.ageUs];
    if (item.item === "secret") return ["v", item.proposed];
    if (item.item === "forget") throw new Error("a gateway of then knows no forgiveness");
    const { limit, leaseUs, id, step, windowUs, keepUs, untilUs, asked, ahead, reports, told } = item;
    const needed = asked * step;
    return [
      ...[lettersOfThen[item.item], limit, leaseUs, id, step],
      ...(item.item === "sliding" ? [windowUs] : item.item === "calendar" ? [keepUs, untilUs] : []),
      ...[needed, needed + ahead, reports.length],
      ...reports.flatMap((report) => [report.id, report.granted, report.spent, report.ageUs]),
      ...(told === null ? [-1] : [told.units, told.ageUs]),
    ];
  });
  return { keys: items.map(({ key }) => key), args: args.map(String) };
}

/** Then, an answer about a counter did not say how long ago others were granted units. */
function answerOfNow(reply: readonly unknown[], items: readonly Item[]): readonly unknown[] {
  // Such a gateway asks about counters alone, but for the list of gateways and the secret, whose calls have one item.
  if (items.some(({ item }) => item === "gateways" || item === "secret")) return reply;
  const [time, ...values] = reply;
  return [time, ...values.flatMap((value, i) => (i % 6 === 5 ? [-1, value] : [value]))];
}
