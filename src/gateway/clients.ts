// What an operator asks about clients, as plain values: who uses most, what is counted of one, what a request would get; and who
// is forgiven. For the thread that owns the table of counters, whether or not it carries traffic. Instants are in Unix
// milliseconds. With a shared store, counts are those of this gateway.
import { createDemandReader } from "../auth/authenticator.ts";
import type { Authenticator } from "../core/authentication.ts";
import { type ClientAddressRules, peerAt } from "../core/client-address.ts";
import type { Clock } from "../core/clock.ts";
import { headerValue } from "../core/headers.ts";
import { InTurn } from "../core/in-turn.ts";
import { parseIpAddress } from "../core/ip-address.ts";
import type { RefusalReason } from "../core/local-reply.ts";
import type { Verdict } from "../core/request-head.ts";
import type { ForgivenKey } from "../core/rules.ts";
import type { RulesInForce } from "../core/rules-in-force.ts";
import type { Settings } from "../core/settings.ts";
import type { ForgivenName } from "../limits/forgive.ts";
import { KeyListing, type ListedKey, type ListQuery } from "../limits/key-listing.ts";
import type { PolicyLimiter } from "../limits/limiter.ts";
import type { KeyState, PolicyCheck, PolicyState } from "../limits/limiter-view.ts";
import type { NameContext } from "../limits/named-keys.ts";
import type { ForgivenNotice } from "../limits/store/shared-rules.ts";
import { whenFree } from "../limits/table/layout.ts";
import { createDecide, type Decide } from "../pipeline.ts";
import { quotaPathOf, requestRules } from "./runtimes.ts";

/** What is in force. */
interface ClientsSource {
  readonly settings: Settings;
  readonly limiter: PolicyLimiter;
  readonly files: { readonly authenticator: Authenticator };
  readonly clientAddress: ClientAddressRules;
}

/** A request that is tried. */
export interface TriedRequest {
  readonly method: string;
  readonly target: string;
  /** The address of the peer, whose forwarding headers are not believed. Null: the peer is on loopback. */
  readonly client: string | null;
  /** Names and values in turn. Without a Host, there is one. */
  readonly rawHeaders: readonly string[];
}

export interface TriedAnswer {
  /** The status that the gateway would answer with itself; null: the request would be forwarded. */
  readonly status: number | null;
  /** As in the access log; null if nothing is refused. */
  readonly reason: RefusalReason | null;
  /** The policy that the response would speak of. */
  readonly policy: string;
  readonly client: string;
  readonly route: string | null;
  /** The outcome of the token check. */
  readonly auth: Verdict["auth"];
  /** Whether the token is a listed one: in mode `presence`, nobody knows. */
  readonly isVerified: boolean;
  /** Whom the token stands for; null if that was not verified. */
  readonly subject: string | null;
  /** The id of the rule that blocks it; null if none does. */
  readonly blockedBy: string | null;
  readonly policies: readonly PolicyCheck[];
}

export class Clients {
  readonly #source: () => ClientsSource;
  readonly #runtimeRules: RulesInForce;
  readonly #clock: Clock;
  readonly #listing: KeyListing;
  /** The requests that are tried come one after the other: a limiter's view answers about one at a time. */
  readonly #turn = new InTurn();
  #decides: { readonly by: ClientsSource; readonly decide: Decide } | null = null;

  /** `source`: of the thread that owns the table. */
  constructor(source: () => ClientsSource, runtimeRules: RulesInForce, clock: Clock) {
    this.#source = source;
    this.#runtimeRules = runtimeRules;
    this.#clock = clock;
    this.#listing = new KeyListing(() => ({ view: source().limiter.view(), context: contextOf(source()) }), clock);
  }

  /** The keys that have used most, or were used last. */
  async list(query: ListQuery): Promise<readonly ListedKey[]> {
    const keys = await this.#listing.top(query);
    const wall = this.#wall();
    return keys.map((key) => ({
      ...key,
      resetMs: key.resetMs === null ? null : wall(key.resetMs),
      lastMs: key.lastMs === null ? null : wall(key.lastMs),
    }));
  }

  /** What is counted of a name. Charges nothing. Resolves with null for a name that is none. */
  async state(name: ForgivenKey): Promise<{ readonly policies: readonly PolicyState[] } | null> {
    const source = this.#source();
    const states = await source.limiter.view().state(name, contextOf(source), this.#clock.monotonicMs);
    if (states === null) return null;
    const wall = this.#wall();
    const shown = (key: KeyState): KeyState => ({
      ...key,
      resetMs: key.resetMs === null ? null : wall(key.resetMs),
      admissions: key.admissions.map(({ atMs, units }) => ({ atMs: wall(atMs), units })),
    });
    const policies = states.map((state) => ({ ...state, keys: state.keys.map(shown) }));
    return { policies };
  }

  /** Forgets what is counted of names, from the next request on, in all threads. Null for a name that is none. */
  async forgive(forgiven: readonly ForgivenNotice[]): Promise<readonly (ForgivenName | null)[]> {
    const forgotten: (ForgivenName | null)[] = [];
    for (const { name, seq } of forgiven) {
      const source = this.#source();
      forgotten.push(await source.limiter.forgive(name, contextOf(source), seq));
    }
    return forgotten;
  }

  /** Forgets what this thread holds of names, where another thread has forgotten what the table has counted. */
  forgiveHeld(forgiven: readonly ForgivenNotice[]): void {
    const source = this.#source();
    const context = contextOf(source);
    for (const { name, seq } of forgiven) source.limiter.forgiveHeld(name, context, seq);
  }

  /** What a request would get. Charges nothing. Resolves with null if `client` is no address. */
  check(request: TriedRequest): Promise<TriedAnswer | null> {
    return this.#turn.do(() => this.#check(request));
  }

  async #check({ method, target, client, rawHeaders }: TriedRequest): Promise<TriedAnswer | null> {
    const source = this.#source();
    const address = parseIpAddress(client ?? "127.0.0.1");
    if (address === undefined) return null;
    const peer = peerAt(address, source.clientAddress);
    const head = {
      ...{ method, target, httpVersion: "1.1" as const },
      peer: client === null ? peer : { ...peer, isTrusted: false },
      rawHeaders: headerValue(rawHeaders, "host") !== undefined ? rawHeaders : ["Host", "localhost", ...rawHeaders],
    };
    const view = source.limiter.view();
    const decide = this.#decideBy(source);
    const { parsed, decision, auth, identity, localReply, blockedBy } = await whenFree(() => {
      view.begin();
      return decide(head, this.#clock.monotonicMs());
    });
    const wall = this.#wall();
    const policies = view.tried(parsed, head, identity, contextOf(source)).map(({ quota, ...checked }) => ({
      ...checked,
      quota: quota && { ...quota, resetMs: quota.resetMs === null ? null : wall(quota.resetMs) },
    }));
    return {
      ...{ status: localReply?.status ?? null, reason: localReply?.reason ?? null, policy: decision.policy.name },
      ...{ client: parsed.client, route: parsed.route, auth, policies },
      ...{ isVerified: identity !== null, subject: identity?.subject ?? null, blockedBy: blockedBy?.id ?? null },
    };
  }

  /** The pipeline of the requests, with a limiter that charges nothing. */
  #decideBy(source: ClientsSource): Decide {
    const { settings, limiter, files, clientAddress } = source;
    const made = this.#decides;
    const isSame = made?.by.settings === settings && made.by.limiter === limiter && made.by.files === files;
    if (made !== null && isSame) return made.decide;
    const decide = createDecide({
      rules: requestRules(settings, clientAddress, quotaPathOf(settings)),
      limiter: limiter.view().limiter,
      ...{ authenticator: files.authenticator, runtimeRules: this.#runtimeRules },
      demandOf: createDemandReader(settings.auth, settings.routes, settings.basePath),
      refusals: null,
      nowMs: this.#clock.monotonicMs,
    });
    this.#decides = { by: source, decide };
    return decide;
  }

  /** Returns what makes an instant of the monotonic clock one of the wall clock. */
  #wall(): (monotonicMs: number) => number {
    const offsetMs = this.#clock.wallMs() - this.#clock.monotonicMs();
    return (monotonicMs) => Math.ceil(monotonicMs + offsetMs);
  }
}

function contextOf({ settings, files }: ClientsSource): NameContext {
  const { ipv6Prefix } = settings.clientAddress;
  return { ipv6Prefix, listed: files.authenticator.tokens()?.list ?? null, routes: settings.routes };
}
