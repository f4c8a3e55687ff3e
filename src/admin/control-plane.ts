// What the gateway answers about itself, and what it can be told to do: the same for the API, the page and the command line.
// The composition root implements it. Its types are those of the schemas; nothing of them is loaded here.

import type { Static } from "typebox";
import type { SharedRulesFigures, StoreHealth } from "../core/store-link.ts";
import type { UpstreamHealth } from "../core/upstream.ts";
import type * as schemas from "./schemas.ts";

/** Without what only the listener knows. */
export type Status = Omit<Static<typeof schemas.Status>, "caller">;
export type HistoryAnswer = Static<typeof schemas.History>;
export type UpstreamMinutesAnswer = Status["upstream"]["lastMinutes"];
export type PolicyHistoryAnswer = Static<typeof schemas.PolicyHistory>;
export type PolicyList = Static<typeof schemas.PolicyList>;
export type ClientList = Static<typeof schemas.ClientList>;
export type ClientState = Static<typeof schemas.ClientState>;
export type ForgivenAnswer = Static<typeof schemas.Forgiven>;
export type RequestAnswer = Static<typeof schemas.RequestAnswer>;
export type RefusalList = Static<typeof schemas.RefusalList>;
export type RuleWanted = Static<typeof schemas.RuleWanted>;
export type ShownRule = Static<typeof schemas.Rule>;
export type CheckWanted = Static<typeof schemas.CheckWanted>;
export type CheckedRequest = Static<typeof schemas.CheckAnswer>;
export type Config = Static<typeof schemas.Config>;
export type ReloadWanted = Static<typeof schemas.ReloadWanted>;
export type ReloadAnswer = Static<typeof schemas.ReloadAnswer>;
export type ConfirmAnswer = Static<typeof schemas.ConfirmAnswer>;
export type DrainAnswer = Static<typeof schemas.DrainAnswer>;
export type ControlEvent = Static<typeof schemas.ControlEvent>;

export interface EventFeed {
  /** Calls back for each event until the returned function is called. The last event is `drain`. */
  subscribe(onEvent: (event: ControlEvent) => void): () => void;
}

export interface ControlPlane extends EventFeed {
  status(): Promise<Status>;
  policies(): Promise<PolicyList>;
  /** `against`: also says what the last reload has changed. */
  config(against: "previous" | null): Promise<Config>;
  /** `by`: the name of who asks. */
  reload(wanted: ReloadWanted, by: string): Promise<ControlResult<ReloadAnswer>>;
  /** Confirms the reload that is on trial. `by`: the name of who asks. */
  confirm(by: string): Promise<ControlResult<ConfirmAnswer>>;
  /** Puts the configuration before the trial into force. `by`: the name of who asks. */
  takeBack(by: string): Promise<ControlResult<ReloadAnswer>>;
  /** Begins a drain, as SIGTERM does. */
  drain(): void;
  /** What a drain that begins now would do, or what the one in progress does. */
  drainTimes(): DrainAnswer;
  readonly recent: RecentRequests;
  readonly clients: ClientControl;
  readonly rules: RuleControl;
}

/** An answer, or why there is none, in sentences for whoever asked. */
export type ControlResult<T> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly why: ControlRefusal; readonly details: readonly string[] };

/**
 * `unacceptable`: wrong in any state. `conflict`: not possible now, or not without `force`. `mismatch`: the caller's condition
 * does not hold. `absent`: there is no such thing. `full`: there are as many as there may be.
 */
export type ControlRefusal = "unacceptable" | "conflict" | "mismatch" | "absent" | "full";

/** The last minutes, and why requests were refused. */
export interface RecentRequests {
  /** Of the newest `count` steps; null: of all. */
  history(count: number | null): Promise<HistoryAnswer>;
  policyHistory(): Promise<PolicyHistoryAnswer>;
  /** What came of requests to the upstream in the last minutes. */
  upstream(): UpstreamMinutesAnswer;
  /** Of the last 10,000 refusals and failures of the upstream that are kept. Null: it is not among them. */
  request(id: string): Promise<RequestAnswer | null>;
  /** Of those, the last. `key`: as in a call, such as `client:203.0.113.7`; null: of all clients. `limit`: from 1 to 200. */
  refusals(key: string | null, limit: number): Promise<ControlResult<RefusalList>>;
  /** Calls back for refusals, sampled, until the returned function is called. */
  subscribe(onRefusal: (refusal: RequestAnswer, leftOut: number) => void): () => void;
}

export interface ClientsWanted {
  /** Null: keys of all policies. */
  readonly policy: string | null;
  readonly sort: "used" | "share" | "refused" | "recent";
  /** Null: all keys. */
  readonly search: string | null;
  /** At most so many keys; from 1 to 1000. */
  readonly limit: number;
}

/**
 * What must hold for a change (RFC 9110, section 13). `revisions`: the rule has one of these. `exists` and `missing`: If-Match
 * and If-None-Match with an asterisk.
 */
export type Precondition =
  | { readonly kind: "none" | "exists" | "missing" }
  | { readonly kind: "revisions"; readonly revisions: readonly number[] };

/** `key`: as in a call, such as `client:203.0.113.7`. */
export interface ClientControl {
  list(wanted: ClientsWanted): Promise<ControlResult<ClientList>>;
  find(key: string): Promise<ControlResult<ClientState>>;
  forgive(key: string): Promise<ControlResult<ForgivenAnswer>>;
  check(request: CheckWanted): Promise<ControlResult<CheckedRequest>>;
}

/** Who makes a change. */
export interface AdminCaller {
  /** The name of the admin token, or `socket`. */
  readonly name: string;
  /** Its address in canonical text; null on the Unix socket. */
  readonly peer: string | null;
}

/** A rule with the tag by which a later change can name it. */
export interface TaggedRule {
  readonly rule: ShownRule;
  readonly revision: number;
}

/** What a change of a rule came to. */
export interface RuleVersions {
  readonly before: TaggedRule | null;
  readonly after: TaggedRule | null;
}

export interface RuleControl {
  /** By id, in portions, because there may be many. */
  list(): AsyncIterable<readonly ShownRule[]>;
  find(id: string): TaggedRule | null;
  put(
    id: string,
    wanted: RuleWanted,
    precondition: Precondition,
    caller: AdminCaller,
  ): Promise<ControlResult<RuleVersions>>;
  remove(id: string, precondition: Precondition, caller: AdminCaller): Promise<ControlResult<RuleVersions>>;
}

/**
 * The health that the admin listener reports to an orchestrator. The upstream's state does not affect readiness:
 * otherwise a failing upstream would take every gateway out of rotation, and clients would not even get a 502.
 */
export interface Health {
  /** `starting` until the traffic listener is open, `draining` from the signal to stop. */
  readonly status: "starting" | "ready" | "draining";
  readonly upstream: UpstreamHealth;
  /** Null: the counters are not shared. Without the store, the gateway decides by itself, so that it stays ready. */
  readonly store: StoreHealth | null;
  /** Whether rules and forgiveness of other gateways are known; null: they are not shared. They do not affect readiness. */
  readonly rules: { readonly state: SharedRulesFigures["state"] } | null;
  /** Null: no tokens are listed. `ending`: how many end within 14 days, or have ended. */
  readonly tokens: { readonly listed: number; readonly ending: number } | null;
}
