// What every call of the admin API takes and answers, as JSON Schema. The validation of requests, the TypeScript types and
// the OpenAPI document are made of these schemas alone. No object has other keys than those that are written here. An
// instant is text in ISO 8601 with milliseconds, a length of time a number of seconds, an address canonical text.
import { authOutcomes } from "../core/authentication.ts";
import { calendarPeriods, outcomes } from "../core/policy.ts";
import { reloadCauses } from "../core/reload.ts";
import { ruleActions } from "../core/rules.ts";
import { onFailureModes, storeStates } from "../core/store-link.ts";
import { Change, ReloadSummary, ReloadTrial, reloadCaller, reloadCause, TrialEnd } from "./reload-schemas.ts";
import {
  count,
  durationPattern,
  fieldNamePattern,
  flag,
  instant,
  keyPattern,
  maxKeyLength,
  methodPattern,
  object,
  orNull,
  pageLimitPattern,
  refusalLimitPattern,
  requestIdPattern,
  ruleIdPattern,
  seconds,
  Type,
  text,
  texts,
} from "./schema-kinds.ts";

export { History, HistoryQuery, PolicyHistory } from "./history-schemas.ts";
export { ConfirmAnswer, ReloadAnswer, ReloadWanted } from "./reload-schemas.ts";

export const ErrorAnswer = object(
  {
    message: text("The status in words."),
    errors: Type.Array(object({ errMsg: text("What was wrong, and what is expected.") }), { minItems: 1 }),
  },
  "Every error has this form.",
);

// Keys

const keyText = text("Whom it is about, as `kind:value`: `client:203.0.113.7`, `token:alice`, `subject:…`, `key:…`.");

export const KeyParameter = object({
  key: text(
    "`client:` and an address or network, `token:` and the name of a listed token, `subject:` and a verified subject, or " +
      "`key:` and 32 hexadecimal digits, for a key of which only a hash is known; percent-encoded.",
    { pattern: keyPattern, maxLength: maxKeyLength },
  ),
});

// Status

const certificate = object({
  subject: text("As it is in the certificate."),
  expires: instant("From then on it is not valid."),
  expiresInSeconds: Type.Number({ description: "Negative if it has expired." }),
  isCurrent: flag("False: its files are missing or wrong, and an earlier version stays in use."),
});

export const Status = object({
  version: text("Of the gateway."),
  nodeVersion: text("Of the runtime."),
  state: Type.Enum(["starting", "ready", "draining"]),
  started: instant("When the process began to listen."),
  uptimeSeconds: seconds("Since then."),
  config: object({
    loaded: instant("When the configuration in force was loaded."),
    loadedBy: Type.Enum(["start", ...reloadCauses]),
    isCurrent: flag(
      "False: what was read last is wrong or was taken back, and the configuration from before is in force.",
    ),
    restart: texts("Keys whose new values need a restart."),
    lastReload: orNull(ReloadSummary),
  }),
  trial: orNull(ReloadTrial),
  lastTrial: orNull(TrialEnd),
  workers: object({
    configured: count("Threads that carry traffic, as configured."),
    serving: count("Those that accept connections."),
    restarts: count("Threads that have ended and were replaced."),
  }),
  possibleProxies: texts(
    "Untrusted peers, four at most, that have named 20 clients in 10 s within the last 10 minutes. A client that invents " +
      "addresses looks the same: trust one only if it is your own proxy.",
  ),
  upstream: object({
    state: Type.Enum(["unknown", "up", "down"], { description: "The result of the last attempt of a request." }),
    reason: orNull(text("Why it is down.")),
    addresses: Type.Array(
      object({
        address: text("Host and port."),
        state: Type.Enum(["available", "ejected"]),
        reason: orNull(
          text("Why it is ejected: as in the metrics and the log, or the status or error code of its health check."),
        ),
        active: count("Requests on it, over all threads."),
      }),
      { description: "ejected: in at least one thread." },
    ),
    lastMinutes: object(
      {
        seconds: seconds("Length of the period."),
        answered: count("Responses, without those that broke off."),
        meanSeconds: orNull(seconds("Until the head of a response. Null: there was none.")),
        abandoned: count("Requests whose client left before the upstream answered."),
        failures: Type.Array(
          object({
            reason: text("As in the metrics and the log."),
            address: orNull(text("Host and port. Null: no address was reached, or the causes beyond 64 are summed.")),
            count: count("Requests."),
          }),
          { description: "Requests that it failed, the most frequent cause first." },
        ),
      },
      "Results of the requests sent to the upstream.",
    ),
  }),
  store: orNull(
    object({
      state: Type.Enum(storeStates, { description: "Of the shard that is worst off." }),
      since: orNull(instant("Since when it is in this state. Null: it was not reached since the start.")),
      onFailure: Type.Enum(onFailureModes, { description: "What decides while it is away: counters.redis.onFailure." }),
      shards: object({ up: count(""), slow: count(""), away: count(""), returned: count("") }, "Shards by state."),
      replicas: count("Gateways that share the store, as counted or configured."),
      gateways: Type.Array(
        object({
          name: text("Of its host."),
          version: text(""),
          started: instant("When it began to listen, by its clock."),
          admin: orNull(text("Host and port of its admin API, as it listens. Null: it has none over TCP.")),
          isSelf: flag("Whether it is the one that answers."),
        }),
        {
          description:
            "Those that were heard in the last 10 s, 100 at most, by name; while the store is away, those that were there " +
            "last. One of a release before this list is counted alone.",
        },
      ),
    }),
  ),
  certificate: orNull(certificate),
  adminCertificate: orNull(certificate),
  tokens: orNull(object({ listed: count("Tokens in auth.tokensFile."), ending: count("Those that end in 14 days.") })),
  caller: object(
    {
      name: text("Of the token, or `socket`."),
      role: Type.Enum(["read", "write"], { description: "What it allows." }),
    },
    "Who asks.",
  ),
});

// Policies

const policyOutcomes = object({
  admitted: count("Requests that were charged."),
  throttled: count("Requests that were refused."),
  would_throttle: count("Requests that a policy in shadow mode would have refused."),
  exempt: count("Requests of exempt clients."),
  observed: count("Requests whose quota was shown and not spent."),
  unavailable: count("Requests that were refused because the shared store was away."),
} satisfies Record<(typeof outcomes)[number], unknown>);

export const PolicyList = object({
  enforcement: Type.Enum(["on", "shadow"], { description: "shadow: each policy is a shadow, whatever its mode." }),
  policies: Type.Array(
    object({
      name: text(""),
      kind: Type.Enum(["sliding", "calendar", "concurrency"]),
      limit: count("Units of one key in any window, in a period, or at once."),
      windowSeconds: orNull(seconds("Of a sliding window.")),
      per: orNull(Type.Enum(calendarPeriods)),
      timezone: orNull(text("Of the calendar.")),
      cost: count("What one request spends."),
      key: texts("The parts of its key, as in the configuration."),
      paths: texts("None: all."),
      methods: texts("None: all."),
      who: orNull(Type.Enum(["verified", "others"])),
      chargeStatuses: orNull(Type.Array(Type.Integer())),
      mode: Type.Enum(["enforce", "shadow"]),
      exempt: texts("Addresses and networks."),
      overrides: Type.Array(
        object({
          part: Type.Enum(["client", "token", "subject", "header"]),
          value: text("The value of a header, and the digest of a token, are masked."),
          limit: count(""),
        }),
      ),
      outcomes: policyOutcomes,
    }),
    { description: "In the order of the configuration." },
  ),
});

// Rules

export const RuleParameter = object({
  id: text("1 to 64 letters, digits, `.`, `_` or `-`; chosen by the caller.", { pattern: ruleIdPattern }),
});

/** Fields of a conditional request. */
export const Conditions = Type.Object({
  "if-match": Type.Optional(text("The entity tag of the rule that is to be changed, or `*`.")),
  "if-none-match": Type.Optional(text("`*`: only if there is no rule with this id.")),
});

const ruleSubject = {
  client: Type.Optional(text("An address, or a network in CIDR notation.", { minLength: 1, maxLength: 64 })),
  token: Type.Optional(text("The name of a listed token.", { minLength: 1, maxLength: 64 })),
  subject: Type.Optional(text("A verified subject.", { minLength: 1, maxLength: 512 })),
};

const ruleEffect = {
  action: Type.Enum(ruleActions, { description: "block comes before exempt, and exempt before limit." }),
  policy: Type.Optional(
    text("exempt: the only policy that it is about. limit: the policy whose limit it replaces.", {
      minLength: 1,
      maxLength: 64,
    }),
  ),
  limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 1_000_000_000, description: "With action limit." })),
  for: text('How long it holds, from "1s" to "30d".', { pattern: durationPattern }),
  note: Type.Optional(text("For people. No control, bidi or other invisible characters.", { maxLength: 500 })),
};

export const RuleWanted = object(
  {
    ...ruleSubject,
    ...ruleEffect,
    force: Type.Optional(
      flag("Needed for a rule that covers a trusted proxy, a trusted caller, or the caller itself."),
    ),
  },
  "Exactly one of client, token and subject.",
);

export const Rule = object({
  id: text(""),
  ...ruleSubject,
  ...ruleEffect,
  set: instant("When it was set."),
  ends: instant("From then on it does not hold."),
  setBy: text("The name of the admin token, or `socket`."),
  warnings: texts("Why it is about nobody, or changes nothing."),
  untouchedPolicies: texts(
    "Policies that it does not touch: they are asked before the token is checked, or a limit is for another part of the key.",
  ),
  survivesRestart: flag(
    "Whether it holds after a restart of this gateway; after a crash, if the store or the last snapshot has it.",
  ),
  shared: orNull(
    flag("False: the store is away, and it holds at this gateway alone for now. Null: gateways share nothing."),
  ),
});

export const RuleList = object({ rules: Type.Array(Rule, { description: "By id." }) });

// Clients

const refusals = object(
  {
    count: count("Never too low."),
    error: count("It may be too high by at most so many."),
  },
  "An upper bound; `error` says by how much it may be too high.",
);

export const clientSorts = ["used", "share", "refused", "recent"] as const;

/** Parameters of a query are text. */
export const ClientsQuery = object({
  policy: Type.Optional(text("Keys of this policy alone.", { minLength: 1, maxLength: 64 })),
  sort: Type.Optional(
    Type.Enum(clientSorts, {
      description: "The largest first. used: by units, also without it. share: of the policy's limit, shadows last.",
    }),
  ),
  search: Type.Optional(
    text("What the name of the key begins with: the address, say.", { minLength: 1, maxLength: 128 }),
  ),
  limit: Type.Optional(text("At most so many, from 1 to 1000; without it, 50.", { pattern: pageLimitPattern })),
});

const countedAs = orNull(
  Type.Enum(["client", "network"], {
    description: "What is counted in place of the key, because there was no room for a counter of its own.",
  }),
);
const usage = {
  limit: count("For this key."),
  used: count("Units that count."),
  remaining: count("Units that are left."),
  reset: orNull(instant("When more becomes available. Null: nothing is used, or nobody knows, as of a slot.")),
  resetSeconds: orNull(seconds("From now.")),
};

export const ClientList = object({
  clients: Type.Array(
    object({
      key: orNull(keyText),
      name: text("An address, the name of a listed token, or the first digits of a hash."),
      policy: text("The policy that counts it."),
      ...{ countedAs, method: orNull(text("Of a key with a method.")), route: orNull(text("Of a key with a route.")) },
      ...usage,
      last: orNull(instant("The last request that was admitted. Null: not known.")),
      refused: orNull(refusals),
      seen: orNull(text("Who was refused last, of a key of which only a hash is known.")),
      actions: Type.Array(Type.Enum(ruleActions), { description: "What the rules about it do." }),
    }),
  ),
  refusedSince: orNull(instant("From when on refusals are counted. Null: they are not.")),
  isComplete: flag("False: there may be more than were asked for."),
  isShared: flag("Whether other gateways count the same keys: what they have counted is not in `used`."),
});

export const ClientState = object({
  key: keyText,
  policies: Type.Array(
    object({
      policy: text(""),
      state: Type.Enum(["open", "exhausted", "exempt"]),
      isShadow: flag("It refuses nothing."),
      ...{ countedAs, method: orNull(text("Of a key with a method.")), route: orNull(text("Of a key with a route.")) },
      ...usage,
      instants: Type.Array(object({ at: instant("When it was counted."), units: count("") }), {
        description: "What counts, the oldest first; at most 1,000. Empty for a period, and for slots.",
      }),
      period: orNull(
        object({ start: instant(""), end: instant("Then nothing is used.") }, "Of a calendar quota: the current one."),
      ),
      held: orNull(count("Units that requests under way hold until their status is known.")),
      exemptBy: orNull(text("The entry of `exempt`.")),
      gap: orNull(text("Which of its requests have other keys, and why.")),
      refused: orNull(refusals),
    }),
    { description: "A policy may have several keys for one name, or none." },
  ),
  rules: Type.Array(Rule, { description: "Those that are about it." }),
  refusedSince: orNull(instant("From when on refusals are counted. Null: they are not.")),
  isShared: flag("Whether other gateways count the same keys: what they have counted is not in `used`."),
});

export const Forgiven = object({
  key: keyText,
  policies: Type.Array(
    object({
      policy: text(""),
      units: count("That were forgotten."),
      countedAs,
      gap: orNull(text("Which of its requests have other keys, and why: they are not forgiven.")),
    }),
  ),
  network: orNull(text("The whole network that was forgiven, because it was counted as one.")),
  untouched: Type.Array(object({ policy: text(""), why: text("") }), { description: "Policies that count on." }),
  shared: orNull(
    flag(
      "True: the store's counter is emptied, and the other gateways hear of it, within 2 s. False: the store is away, and " +
        "both wait until it is back. Null: gateways share nothing.",
    ),
  ),
});

// Requests

export const RequestParameter = object({
  id: text("As in X-Request-Id, or `id` in the log.", { minLength: 1, maxLength: 128, pattern: requestIdPattern }),
});

const policyAnswer = object({
  policy: text(""),
  outcome: Type.Enum(outcomes),
  limit: count("For this key."),
  remaining: count(""),
  reset: instant("When more becomes available."),
  resetSeconds: seconds("From then, or from now."),
});

export const RequestAnswer = object({
  id: text("The gateway's own; the X-Request-Id of the answer, if `requestId` is null."),
  requestId: orNull(text("The X-Request-Id that the request came with, upstream and back: the client's word.")),
  isRepeated: flag("It was found by its `requestId`, which older ones had as well."),
  at: instant("When it was answered."),
  method: text(""),
  path: text("Without its query."),
  status: Type.Integer({ minimum: 0, maximum: 999 }),
  reason: orNull(text("As in the metrics and the log. Null: the upstream failed after the head of its response.")),
  client: text("The address or network that was charged."),
  subject: orNull(text("Whom the token stands for, as it may be logged.")),
  source: Type.Enum(["proxy", "ext-auth"], { description: "ext-auth: an ingress asked." }),
  route: orNull(text("The route that the path is under.")),
  retryAfterSeconds: orNull(Type.Integer({ minimum: 0, description: "As it was sent." })),
  key: orNull(keyText),
  policy: orNull(policyAnswer),
  rule: orNull(text("The id of the rule that decided.")),
  fault: orNull(
    object(
      {
        reason: text("As in the metrics and the log."),
        code: orNull(text("Of the system or the gateway.")),
        address: orNull(text("Host and port. Null: none was reached.")),
      },
      "How the upstream failed the request. Null: it did not.",
    ),
  ),
  explanation: texts("In sentences."),
  remedies: Type.Array(
    object({
      does: Type.Enum(["forgive", "removeRule"]),
      call: text("Method and path of the call of this API."),
    }),
    { description: "What an operator may do so that such a request is admitted." },
  ),
});

export const RefusalsQuery = object({
  key: Type.Optional(KeyParameter.properties.key),
  limit: Type.Optional(text("At most so many, from 1 to 200; without it, 50.", { pattern: refusalLimitPattern })),
});

export const RefusalList = object({
  refusals: Type.Array(RequestAnswer, { description: "The newest first." }),
  isComplete: flag("False: there may be more than were asked for that are remembered."),
});

// Check

export const CheckWanted = object({
  method: text("", { pattern: methodPattern }),
  target: text("Path and query, as in a request.", { minLength: 1, maxLength: 65_536 }),
  client: text("The address that the request would come from.", { minLength: 1, maxLength: 64 }),
  headers: Type.Optional(
    Type.Record(Type.String({ pattern: fieldNamePattern }), Type.String({ maxLength: 65_536 }), {
      maxProperties: 100,
      additionalProperties: false,
      description: "Field values by their names.",
    }),
  ),
});

export const CheckAnswer = object({
  status: Type.Integer({ description: "Of the gateway's own answer; 200: it would be forwarded." }),
  reason: orNull(text("Of a refusal, as in the metrics and the log.")),
  policy: text("The policy that the response would speak of."),
  route: orNull(text("The route that the path is under.")),
  client: text("The address or network that would be charged."),
  auth: Type.Enum(authOutcomes),
  isVerified: flag(
    "Whether the token is a listed one. False with auth accepted: it is present, and nobody has verified it.",
  ),
  subject: orNull(text("Whom the token stands for, if it is verified.")),
  policies: Type.Array(
    object({
      policy: text(""),
      isShadow: flag("It refuses nothing."),
      matches: flag("Whether the policy is about such requests."),
      outcome: orNull(Type.Enum(outcomes, { description: "Null: it is not asked." })),
      exemptBy: orNull(text("The entry of `exempt`.")),
      quota: orNull(object({ ...usage, key: keyText, fits: flag("Whether what the request costs is left.") })),
    }),
  ),
  rules: texts("The ids of the rules about the client or its token."),
  isShared: flag("Whether other gateways count the same keys: what they have counted is not known here."),
  explanation: texts("In sentences."),
});

// Configuration

export const ConfigQuery = object({
  against: Type.Optional(Type.Enum(["previous"], { description: "Also says what the last reload has changed." })),
});

export const Config = object({
  loaded: instant("When it was loaded."),
  values: orNull(
    Type.Record(Type.String(), Type.Unknown(), {
      description: "Every key with its value in force; secrets are masked. Null: a program passed the settings.",
    }),
  ),
  origins: Type.Array(
    object({
      key: text("Dotted."),
      source: Type.Enum(["file", "environment", "command line"]),
      place: text("File, line and column, the variable, or the option."),
    }),
    { description: "Where the values were written. Keys that are not listed have their defaults." },
  ),
  restart: Type.Array(object({ key: text(""), inForce: text(""), wanted: text("") }), {
    description: "Keys whose wanted values need a restart.",
  }),
  lastReload: Type.Optional(
    orNull(
      object({
        at: instant(""),
        by: reloadCause,
        caller: reloadCaller,
        changed: texts("Keys whose new values are in force, or whose files have new contents."),
        changes: Type.Array(Change),
        reset: texts("Policies that have started empty, because their name, kind or key is new."),
        loosened: texts("Changed keys by which protection was given up."),
      }),
    ),
  ),
  lastTrial: Type.Optional(orNull(TrialEnd)),
});

// Writes

export const Nothing = object({}, "Without keys.");

export const DrainAnswer = object({
  state: Type.Enum(["draining"]),
  delaySeconds: seconds("New connections are accepted for so long."),
  timeoutSeconds: seconds("Then requests in progress may take so long."),
});

// Events

const at = instant("");

export const ControlEvent = Type.Union(
  [
    object({ type: Type.Enum(["reload"]), ...ReloadSummary.properties, changed: texts("As in POST /api/reload.") }),
    object({
      type: Type.Enum(["trial"]),
      at,
      outcome: Type.Enum(["begun", "confirmed", "taken_back"]),
      reason: orNull(TrialEnd.properties.reason),
      by: reloadCaller,
      trial: ReloadTrial,
    }),
    object({ type: Type.Enum(["upstream"]), at, upstream: Status.properties.upstream }),
    object({ type: Type.Enum(["store"]), at, store: Status.properties.store }),
    object({ type: Type.Enum(["drain"]), at }),
    object({ type: Type.Enum(["rule"]), at, set: Type.Array(Rule), removed: texts("Ids.") }),
    object({
      type: Type.Enum(["refusal"]),
      at,
      request: RequestAnswer,
      leftOut: count("Refusals since the last event of this type that were left out."),
    }),
  ],
  { description: "The data of one event, whose name is its type." },
);
