// What the gateways of one store share of rules and forgiveness, once for a process: reads and writes it, hands on what it
// says, and logs whether it can be read. Says who this gateway is, and lists the others. Without the store, the
// gateway serves with what it knows.
import { hostname } from "node:os";
import { readRegularFile } from "../config/files.ts";
import type { Clock } from "../core/clock.ts";
import { ignoreError } from "../core/failure.ts";
import type { TakeBackReason } from "../core/reload.ts";
import type { Rule } from "../core/rules.ts";
import type { Settings } from "../core/settings.ts";
import type { CallFailure, SharedRulesState } from "../core/store-link.ts";
import type { GatewayFacts, Presence } from "../limits/store/presence.ts";
import { gatewayLength } from "../limits/store/script-call.ts";
import type { SharedRules } from "../limits/store/shared-rules.ts";
import { createErrorLog, type Logger } from "../telemetry/log.ts";
import type { Forgiving } from "./forgiving.ts";
import { randomText } from "./open-counters.ts";
import { inTime, systemTimers } from "./open-store.ts";
import type { RuleBook } from "./rule-book.ts";

interface SharingOptions {
  readonly clock: Clock;
  readonly log: Logger;
  /** The rules of the last process. */
  readonly restored: readonly Rule[];
  readonly rules: Pick<RuleBook, "take">;
  readonly forgiving: Pick<Forgiving, "take">;
}

export class Sharing {
  readonly rules: SharedRules;
  readonly presence: Presence;
  readonly #log: Logger;
  #reached: Promise<void> | null = null;

  /** Use `createSharing`. */
  constructor(rules: SharedRules, presence: Presence, log: Logger) {
    this.rules = rules;
    this.presence = presence;
    this.#log = log;
  }

  /** Begins to connect and to read. */
  open(): void {
    this.rules.open();
    this.#reached = inTime(this.rules.firstRead());
  }

  /** Resolves when the rules were read for the first time, or a second after `open`. */
  async reached(): Promise<void> {
    await this.#reached;
    if (this.rules.figures().state === "unread") this.#log.warn({}, "shared rules not read yet");
  }

  /** Tells the others, if the store is there. */
  async tellTakenBack(reason: TakeBackReason): Promise<void> {
    await this.rules.tellTakenBack({ host: hostname(), reason });
  }

  /** Lists this gateway among those that share the store. Must be called once. `about` is called with each heartbeat. */
  announce(about: () => Omit<GatewayFacts, "name">): void {
    this.presence.announce(() => ({ name: hostname(), ...about() }));
    void this.rules.readNow();
  }
}

/** Connects to nothing yet. Null if the counters are not shared; what it needs is loaded here, because a gateway without a store does not need it. */
export async function createSharing(
  { counters: { redis } }: Settings,
  { clock, log, restored, rules, forgiving }: SharingOptions,
): Promise<Sharing | null> {
  if (redis === null) return null;
  const [{ openRedisLink }, { SharedRules }, { Presence }, { rulesScript }] = await Promise.all([
    import("../limits/store/redis/link.ts"),
    import("../limits/store/shared-rules.ts"),
    import("../limits/store/presence.ts"),
    import("../limits/store/rules-script.ts"),
  ]);
  // A link apart from those of the threads, so that neither waits for the other.
  const link = openRedisLink(redis.connection, { script: rulesScript, readFile: readRegularFile });
  const id = randomText(gatewayLength);
  const common = { link, timers: systemTimers, prefix: redis.store.prefix };
  const presence = new Presence(id);
  const sharedRules = new SharedRules({
    presence,
    ...{ ...common, clock, origin: id, restored },
    onRules: (change, all) => void rules.take(change, all).catch(ignoreError),
    onForgiven(forgiven, logPosition) {
      forgiving.take(forgiven, logPosition).catch(createErrorLog(log));
    },
    onTakenBack: ({ host, reason }) => log.warn({ host, reason }, "another gateway has taken a reload on trial back"),
    onState: (state, failure) => logState(log, state, failure),
  });
  return new Sharing(sharedRules, presence, log);
}

function logState(log: Logger, state: SharedRulesState, failure: CallFailure | null): void {
  if (state === "read") log.info({}, "shared rules read");
  else log.warn({ cause: failure?.kind, detail: failure?.detail || undefined }, "shared rules away");
}
