// The gateways that share the store, for people: each says with its heartbeat that it is there, and hears who else is. What the
// store holds is from outside: it is bounded by the script (see rules-script.ts), and checked here before it is shown. Nothing
// is decided by it; how many gateways there are, the shards count for themselves.
import { type PresentGateway, parsedJson } from "./rules-call.ts";
import { longestGateway, mostGateways } from "./rules-script.ts";
import { gatewayLength } from "./script-call.ts";
import { heartbeatMs } from "./shard.ts";

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

/** A gateway that is silent for longer is not listed any more. */
const silenceMs = 10 * heartbeatMs;

export class Presence {
  readonly #id: string;
  #about: (() => GatewayFacts) | null = null;
  /** What the store said last. */
  #texts: readonly string[] = [];

  /** `id`: random characters of this start of the process, `gatewayLength` of them. */
  constructor(id: string) {
    this.#id = id;
  }

  /** Lists this gateway with the next heartbeat. Must be called once. `about` is called with each heartbeat. */
  announce(about: () => GatewayFacts): void {
    this.#about = () => fitting(about());
  }

  /** Returns what the heartbeat says; null before `announce`. */
  present(): PresentGateway | null {
    return this.#about && { id: this.#id, about: JSON.stringify(this.#about()), silenceMs };
  }

  /** Takes what the store says of all gateways. */
  take(texts: readonly string[]): void {
    this.#texts = texts.slice(0, mostGateways);
  }

  /** All gateways that share the store, by name. While the store is away, those that were there last. */
  gateways(): readonly ListedGateway[] {
    if (this.#about === null) return [];
    const others = this.#texts.flatMap((text) => (text.startsWith(this.#id) ? [] : (factsOf(text) ?? [])));
    const listed = [
      { ...this.#about(), isSelf: true },
      ...others.slice(0, mostGateways - 1).map((facts) => ({ ...facts, isSelf: false })),
    ];
    return listed.sort((a, b) => (a.name === b.name ? a.startedMs - b.startedMs : a.name < b.name ? -1 : 1));
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
