// The table of colours. A label value has the same colour in every panel, and no colour has two meanings: green is
// success; yellow is throttled; red, pink and orange are failures; blue and purple are neither good nor bad. A new label
// value without a colour does not compile, and a test checks the rules. 4xx is a yellow, because 429 is most of it. Routes, instances and versions differ from one
// deployment to the next and take Grafana's own palette.
import { admitted, decisions, refusals } from "../../../src/admin/console/colors.js";
import type { AuthOutcome } from "../../../src/core/authentication.ts";
import type { SharedResource } from "../../../src/core/client-share.ts";
import type {
  ConnectionShedReason,
  Http2CloseReason,
  Http2ResetReason,
  ProxyHeaderRefusal,
  TlsFailure,
} from "../../../src/core/connection-ends.ts";
import type { RefusalReason } from "../../../src/core/local-reply.ts";
import type { toldMethods } from "../../../src/core/method.ts";
import type { Outcome } from "../../../src/core/policy.ts";
import type { ReloadOutcome } from "../../../src/core/reload.ts";
import type { RuleAction } from "../../../src/core/rules.ts";
import type { CallResult, OnFailure, SharedStoreFigures, StoreState } from "../../../src/core/store-link.ts";
import type { UpstreamErrorReason, UpstreamHealth } from "../../../src/core/upstream.ts";
import type { checkOutcomes, StatusClass } from "../../../src/telemetry/metrics.ts";
import type { RecentBytes } from "../../../src/telemetry/scraped-metrics.ts";

type Colors<Value extends string> = Readonly<Record<Value, string>>;

/** Why the gateway answered a request itself; the console has the same colours. */
export const refusalColors: Colors<RefusalReason> = refusals;

const success = admitted;
const { no_token: noToken, invalid_token: invalidToken, expired_token: expiredToken } = refusalColors;
const { malformed, overloaded } = refusalColors;
const unavailable = "#fe6c64";

export const statusClassColors: Colors<StatusClass> = {
  none: "#2799d4",
  "1xx": "#643fd1",
  "2xx": success,
  "3xx": "#cecafd",
  "4xx": "#e9c413",
  "5xx": "#f2495c",
};

/** Reasons of failed requests to the upstream and of failed TLS handshakes. */
const refused = "#f27539";
const other = "#b99c78";

export const upstreamErrorColors: Colors<UpstreamErrorReason> = {
  refused,
  unreachable: "#c57fa5",
  connect_timeout: "#f9add2",
  certificate: "#795d3c",
  tls: "#9e5b81",
  reset: "#f024a1",
  closed_early: "#cb1861",
  malformed,
  head_too_large: refusalColors.head_too_large,
  response_timeout: "#f50004",
  body_timeout: "#feb855",
  overloaded,
  other,
};

/** A reason of failed TLS handshakes and of refused PROXY headers. */
const timeout = "#825557";

export const tlsFailureColors: Colors<TlsFailure> = {
  timeout,
  not_tls: "#f876c3",
  incompatible: "#f0c2d7",
  client_certificate: "#d81618",
  refused,
  closed: "#bb0b86",
  other,
};

export const proxyHeaderColors: Colors<ProxyHeaderRefusal> = {
  invalid: "#ec59ac",
  incomplete: "#deb684",
  timeout,
};

/** A state of upstream connections, and a reason why client connections are closed. */
const idle = "#0d78c7";

export const connectionShedColors: Colors<ConnectionShedReason> = {
  total: "#f1186d",
  per_peer: "#d2a5bc",
  rate: "#be0030",
  idle,
  admin: "#d67200",
};

export const http2CloseColors: Colors<Http2CloseReason> = {
  head_too_large: refusalColors.head_too_large,
  malformed,
  frames: "#98170d",
  resets: "#d90847",
};

export const http2ResetColors: Colors<Http2ResetReason> = {
  per_peer: connectionShedColors.per_peer,
  total: connectionShedColors.total,
  unread: "#9c765b",
  malformed,
};

export const decisionColors: Colors<Outcome> = decisions;

/** What rules do that were set while the gateway runs. */
export const ruleColors: Colors<RuleAction> = {
  block: refusalColors.blocked,
  exempt: decisionColors.exempt,
  limit: "#483ef6",
};

export const authColors: Colors<AuthOutcome> = {
  accepted: success,
  missing: noToken,
  invalid: invalidToken,
  expired: expiredToken,
  skipped: "#0756d8",
};

export const checkColors: Colors<(typeof checkOutcomes)[number]> = {
  admitted: success,
  denied: "#9f3276",
  internal: refusalColors.internal,
  untrusted: "#ecbaae",
  malformed,
  overloaded,
};

export const evictionColors: Colors<"expired" | "live"> = { expired: "#6965f5", live: "#c25560" };

export const counterMemoryColors: Colors<"used" | "free"> = { used: "#3f6fa3", free: "#b9c6ee" };

/** What is remembered of the last minutes. */
export const recentColors: Colors<keyof RecentBytes> = {
  refusals: "#9943f9",
  keys: "#b571cc",
  history: "#403c4f",
};

export const lostLineColors: Colors<"sampled" | "dropped"> = { sampled: "#475cad", dropped: "#ec8a95" };

export const upstreamStateColors: Colors<UpstreamHealth["state"]> = {
  up: success,
  unknown: "#8489fe",
  down: unavailable,
};

export const addressColors: Colors<"available" | "ejected"> = { available: success, ejected: unavailable };

export const connectionColors: Colors<"active" | "idle" | "waiting"> = { active: "#a4c2dd", idle, waiting: "#b95115" };

/** What a client had more than its share of. */
export const shareColors: Colors<SharedResource> = {
  connections: "#960037",
  queue: "#96788c",
  tunnels: "#ffdc87",
  client_connections: "#ffeaf0",
};

export const tunnelColors: Colors<"opening" | "open"> = { opening: "#726e9c", open: "#7baafd" };

export const methodColors: Colors<(typeof toldMethods)[number]> = {
  GET: "#1176f6",
  HEAD: "#bde1f8",
  POST: "#c2a3ee",
  PUT: "#116d8a",
  PATCH: "#02c5ff",
  DELETE: "#7548a8",
  OPTIONS: "#7195a9",
  QUERY: "#0a3f7d",
  other: "#aa65f6",
};

/** Kinds of garbage collection. */
export const collectionColors: Colors<"major" | "minor" | "incremental" | "weakcb"> = {
  major: "#af90da",
  minor: "#28809a",
  incremental: "#8cdffb",
  weakcb: "#863ecd",
};

export const failedLookups = "#d87876";

/** For lines that stand for no label value, such as percentiles. They differ within a panel only. */
export const lines = { first: "#68bbd7", second: "#6d84d2", third: "#b989f6" } as const;

/** For numbers and words that report a state. */
export const health = {
  well: success,
  attention: "#e58f62",
  failed: unavailable,
  unknown: upstreamStateColors.unknown,
} as const;

export const reloadColors: Colors<ReloadOutcome> = {
  applied: success,
  unchanged: "#5794f2",
  failed: "#e8443a",
};

/** What becomes of a reload on trial. */
export const trialColors: Colors<"confirmed" | "taken_back"> = { confirmed: success, taken_back: "#d84884" };

/** A state of the store, and what becomes of an answer. */
const slow = "#a28a48";

export const shardColors: Colors<StoreState> = { up: success, slow, away: unavailable, returned: "#424284" };

export const callColors: Colors<CallResult> = {
  answered: success,
  late: slow,
  unreachable: upstreamErrorColors.unreachable,
  refused,
  full: "#963c4e",
  unready: "#604e5a",
  failed: reloadColors.failed,
};

export const waitedColors: Colors<keyof SharedStoreFigures["waited"]> = { answered: success, overdue: slow };

export const aloneColors: Colors<OnFailure> = { local: "#a896a2", open: "#723660", closed: "#726c6c" };

/** What becomes of units. */
export const unitColors: Colors<keyof SharedStoreFigures["units"]> = {
  granted: "#de66fc",
  spent: "#c000f0",
  returned: "#301eba",
};
