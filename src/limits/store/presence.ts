// The gateways that share the store, for people: each says once a heartbeat that it is there, and reads who else is. What the
// store holds is from outside: it is bounded by the script (see rules-script.ts), and checked here before it is shown. Nothing
// is decided by it; how many gateways there are, the shards count for themselves.
import type { StoreLink, Timers } from "../../core/store-link.ts";
import { parsedJson, rulesTag } from "./rules-call.ts";
import { longestGateway, mostGateways } from "./rules-script.ts";
import { gatewayLength, storeKeyOf } from "./script-call.ts";
import { heartbeatMs } from "./shard.ts";
import { elapsed } from "./store-clock.ts";

/** What a gateway says of itself. */
export interface GatewayFacts {
  /** Of its host. */
  readonly name: string;
  readonly version: string;
  /** When it began to listen, by its wall clock. */
  readonly startedMs: number;
  /** Host and port of its admin API; null: it has none over TCP. */
  readonly admin: string | null;
}

export interface ListedGateway extends GatewayFacts {
  readonly isSelf: boolean;
}

interface PresenceOptions {
  /** Of the script of rules. */
  readonly link: StoreLink;
  readonly timers: Timers;
  readonly prefix: string;
  /** Random characters of this start of the process, `gatewayLength` of them. */
  readonly id: string;
}

/** A gateway that is silent for longer is not listed any more. */
const silenceMs = 10 * heartbeatMs;
/** A gateway that ends waits so long for the store to have heard of it. */
const leavingMs = 100;

export class Presence {
  readonly #options: PresenceOptions;
  readonly #key: string;
  #about: (() => GatewayFacts) | null = null;
  /** What the store said last. */
  #texts: readonly string[] = [];
  #isAsking = false;
  #timer: { cancel(): void } | null = null;

  constructor(options: PresenceOptions) {
    this.#options = options;
    this.#key = storeKeyOf(options.prefix, rulesTag, "present");
  }

  /** Lists this gateway from now on. Must be called once. `about` is called with each heartbeat. */
  announce(about: () => GatewayFacts): void {
    this.#about = () => fitting(about());
    this.#beat();
  }

  /** All gateways that share the store, by name. While the store is away, those that were there last. */
  gateways(): readonly ListedGateway[] {
    if (this.#about === null) return [];
    const { id } = this.#options;
    const others = this.#texts.flatMap((text) => (text.startsWith(id) ? [] : (factsOf(text) ?? [])));
    const listed = [
      { ...this.#about(), isSelf: true },
      ...others.slice(0, mostGateways - 1).map((facts) => ({ ...facts, isSelf: false })),
    ];
    return listed.sort((a, b) => (a.name === b.name ? a.startedMs - b.startedMs : a.name < b.name ? -1 : 1));
  }

  /** Resolves when the store has heard that this gateway ends, or a little later. */
  async leave(): Promise<void> {
    this.#timer?.cancel();
    if (this.#about === null) return;
    await Promise.race([this.#tell(""), elapsed(this.#options.timers, leavingMs)]);
  }

  #beat(): void {
    this.#timer = this.#options.timers.after(heartbeatMs, () => this.#beat());
    if (this.#isAsking || this.#about === null) return;
    this.#isAsking = true;
    void this.#tell(JSON.stringify(this.#about())).then((texts) => {
      this.#isAsking = false;
      this.#texts = texts ?? this.#texts;
    });
  }

  /** `about`: empty if this gateway ends. Resolves with null if the store has not said who is there. */
  #tell(about: string): Promise<readonly string[] | null> {
    const { link, id } = this.#options;
    const shard = link.shardOf(rulesTag);
    if (shard === -1) return Promise.resolve(null);
    return new Promise((resolve) => {
      link.call(shard, [this.#key], ["present", id, about, String(silenceMs)], (reply, failure) => {
        resolve(failure === null && Array.isArray(reply) ? reply.slice(0, mostGateways).map(String) : null);
      });
    });
  }
}

const longest = { name: 255, version: 64, admin: 262 } as const;
/** Visible characters that JSON does not escape. */
const isPlain = /^[!#-[\]-~]+$/;
const isHostAndPort = /:\d{1,5}$/;
/** The end of the year 9999: later instants are written with more digits. */
const latestMs = 253_402_300_799_999;

/** Null if it is not what a gateway writes: something else may write to the store. */
function factsOf(text: string): GatewayFacts | null {
  if (text.length > longestGateway) return null;
  const { name, version, startedMs, admin } = (parsedJson(text.slice(gatewayLength + 1)) ?? {}) as Record<
    string,
    unknown
  >;
  if (!isText(name, "name") || !isText(version, "version")) return null;
  if (typeof startedMs !== "number" || !Number.isInteger(startedMs) || startedMs < 0 || startedMs > latestMs)
    return null;
  if (admin !== null && !(isText(admin, "admin") && isHostAndPort.test(admin))) return null;
  return { name, version, startedMs, admin };
}

function isText(value: unknown, of: keyof typeof longest): value is string {
  return typeof value === "string" && value.length <= longest[of] && isPlain.test(value);
}

/** A host may have any name. */
function fitting({ name, version, startedMs, admin }: GatewayFacts): GatewayFacts {
  const plain = name.replace(/[^!#-[\]-~]/g, "?").slice(0, longest.name);
  return { name: plain === "" ? "?" : plain, version, startedMs: Math.floor(startedMs), admin };
}
