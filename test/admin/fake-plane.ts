// A control plane for tests of the API: fixed answers, a rule book in memory, and events that a test publishes.
import type {
  ClientControl,
  Config,
  ConfirmAnswer,
  ControlEvent,
  ControlPlane,
  PolicyList,
  RecentRequests,
  ReloadAnswer,
  RequestAnswer,
  RuleControl,
  ShownRule,
  Status,
} from "../../src/admin/control-plane.ts";
import type { Settings } from "../../src/core/settings.ts";
import { createRuleControl } from "../../src/gateway/control/rule-control.ts";
import { RuleBook } from "../../src/gateway/rule-book.ts";
import { keptLog } from "../telemetry/lines.ts";

const at = "2026-11-24T12:00:00.000Z";

const lastMinutes = {
  ...{ seconds: 300, answered: 9, meanSeconds: 0.002, abandoned: 0 },
  failures: [{ reason: "malformed", address: "10.0.0.1:80", count: 3 }],
};

export const status: Status = {
  version: "1.2.3",
  nodeVersion: "26.10.0",
  state: "ready",
  started: at,
  uptimeSeconds: 12.5,
  config: { loaded: at, loadedBy: "start", isCurrent: true, restart: [], lastReload: null },
  trial: {
    since: at,
    cause: "call",
    by: "ops",
    ends: at,
    unconfirmed: "takeBack",
    refusedShare: 0.05,
    judged: 100,
    refused: 1,
    changed: [],
    changes: [],
  },
  lastTrial: null,
  workers: { configured: 1, serving: 1, restarts: 0 },
  possibleProxies: ["10.0.0.9"],
  upstream: {
    state: "up",
    reason: null,
    addresses: [{ address: "10.0.0.1:80", state: "available", reason: null, active: 3 }],
    lastMinutes,
  },
  store: {
    ...{ state: "up", since: at, onFailure: "local", shards: { up: 1, slow: 0, away: 0, returned: 0 }, replicas: 2 },
    gateways: [
      { name: "edge-1", version: "1.2.3", started: at, admin: "10.0.0.8:9464", isSelf: true },
      { name: "edge-2", version: "1.2.2", started: at, admin: null, isSelf: false },
    ],
  },
  certificate: { subject: "CN=api.test", expires: at, expiresInSeconds: -3, isCurrent: false },
  adminCertificate: null,
  tokens: { listed: 2, ending: 1 },
};

const outcomes = { admitted: 1, throttled: 2, would_throttle: 0, exempt: 0, observed: 0, unavailable: 0 };

export const policies: PolicyList = {
  enforcement: "on",
  policies: [
    {
      ...{ name: "per-client", kind: "sliding", limit: 100, windowSeconds: 60, per: null, timezone: null, cost: 1 },
      ...{ key: ["client"], paths: [], methods: [], who: null, chargeStatuses: null, mode: "enforce", exempt: [] },
      overrides: [{ part: "client", value: "10.0.0.0/8", limit: 1000 }],
      outcomes,
    },
  ],
};

export const config: Config = {
  loaded: at,
  values: { listen: { port: 8080 } },
  origins: [{ key: "listen.port", source: "file", place: "headgate.yaml:2:9" }],
  restart: [],
};

export const requestAnswer: RequestAnswer = {
  ...{ requestId: null, isRepeated: false },
  ...{ id: "abc", at, method: "GET", path: "/v2/me", status: 429, reason: "throttled", client: "203.0.113.7" },
  ...{ subject: null, source: "proxy", route: "/v2/", retryAfterSeconds: 3 },
  key: "client:203.0.113.7",
  policy: { policy: "per-client", outcome: "throttled", limit: 100, remaining: 0, reset: at, resetSeconds: 3 },
  ...{ rule: null, fault: null },
  explanation: ["100 of 100 requests were used."],
  remedies: [{ does: "forgive", call: "DELETE /api/clients/client%3A203.0.113.7" }],
};

export const shownRule: ShownRule = {
  ...{ id: "attack", client: "203.0.113.0/24", action: "block", for: "1h", set: at, ends: at, setBy: "ops" },
  ...{ warnings: [], untouchedPolicies: [], survivesRestart: true, shared: null },
};

export const recent: RecentRequests = {
  upstream: () => lastMinutes,
  history: async () => ({
    ...{ stepSeconds: 5, end: at },
    steps: [
      null,
      {
        ...{ seconds: 10, admitted: 10, refused: { throttled: 2 } },
        latencySeconds: { p50: 0.001, p90: 0.002, p99: 0.003 },
        upstream: {
          answered: 10,
          meanSeconds: 0.002,
          latencySeconds: null,
          abandoned: 0,
          failedByReason: { reset: 1 },
        },
        store: { state: "up", lateDecisions: 5 },
        memory: { residentBytes: 3, heapBytes: 2, externalBytes: 1 },
      },
    ],
  }),
  policyHistory: async () => ({
    ...{ stepSeconds: 5, end: at, seconds: [null, 5] },
    policies: [
      {
        ...{ policy: "per-client", admitted: [null, 2], throttled: [null, 1] },
        ...{ would_throttle: [null, 0], unavailable: [null, 0] },
      },
    ],
  }),
  request: async (id) => (id === requestAnswer.id ? requestAnswer : null),
  refusals: async () => ({ ok: true, value: { refusals: [requestAnswer], isComplete: false } }),
  subscribe: () => () => {},
};

const usage = { limit: 100, used: 3, remaining: 97, reset: at, resetSeconds: 3 };
const ofKey = { countedAs: null, method: null, route: null };

export const clients: ClientControl = {
  list: async () => ({
    ok: true,
    value: {
      clients: [
        {
          ...{ key: "client:203.0.113.7", name: "203.0.113.7", policy: "per-client", ...ofKey, ...usage, last: at },
          ...{ refused: { count: 2, error: 1 }, seen: null, actions: [] },
        },
      ],
      ...{ refusedSince: at, isComplete: false, isShared: false },
    },
  }),
  async find(key) {
    if (!key.startsWith("client:")) return { ok: false, why: "absent", details: ["Nothing is known of this key."] };
    const policy = {
      ...{ policy: "per-client", state: "open" as const, isShadow: false, ...ofKey, ...usage },
      ...{ instants: [{ at, units: 3 }], period: null, held: null, exemptBy: null, gap: null },
      refused: { count: 2, error: 1 },
    };
    return { ok: true, value: { key, policies: [policy], rules: [shownRule], refusedSince: at, isShared: false } };
  },
  async forgive(key) {
    if (key === "client:0.0.0.1") throw new Error("a bug with token=secret at /srv/headgate");
    const policies = [{ policy: "per-client", units: 3, countedAs: "network" as const, gap: null }];
    const untouched = [{ policy: "slots", why: "slots in use stay in use" }];
    return { ok: true, value: { key, network: "203.0.113.0/24", policies, untouched, shared: true } };
  },
  check: async ({ client }) => ({
    ok: true,
    value: {
      ...{
        status: 200,
        reason: null,
        policy: "per-client",
        route: "/v2/",
        client,
        auth: "accepted",
        subject: null,
        isVerified: false,
      },
      policies: [
        {
          ...{ policy: "per-client", isShadow: false, matches: true, outcome: "admitted", exemptBy: null },
          quota: { ...usage, key: "client:203.0.113.7", fits: true },
        },
      ],
      ...{ rules: ["attack"], isShared: false, explanation: [] },
    },
  }),
};

/** A rule book without threads. `settings`: the configuration that its rules are about. */
export async function ruleBook(settings: Settings, wallMs = Date.UTC(2026, 10, 24, 12)) {
  const book = new RuleBook({
    clock: { wallMs: () => wallMs },
    log: keptLog().log,
    restored: [],
    survivesRestart: false,
  });
  await book.publishTo({ settings, listedTokens: () => null, changeRules: async () => {} });
  const context = () => ({ settings, listed: null });
  return { book, rules: createRuleControl({ keeper: book, context }) };
}

const absent = async () => ({ ok: false, why: "absent", details: ["There is no rule with this id."] }) as const;

const noRules: RuleControl = { async *list() {}, find: () => null, put: absent, remove: absent };

export interface FakePlane extends ControlPlane {
  publish(event: ControlEvent): void;
  readonly subscribers: () => number;
  readonly drains: () => number;
}

const confirmed: ConfirmAnswer["confirmed"] = {
  ...{
    since: at,
    cause: "call",
    by: "ops",
    ends: at,
    unconfirmed: "keep",
    refusedShare: null,
    judged: 0,
    refused: 0,
    changed: [],
    changes: [],
  },
};

const unchanged: ReloadAnswer = {
  ...{ outcome: "unchanged", changed: [], changes: [], reset: [], loosened: [], restart: [], trial: null },
};

export function fakePlane(changes: Partial<ControlPlane> = {}): FakePlane {
  const listeners = new Set<(event: ControlEvent) => void>();
  let drains = 0;
  return {
    status: async () => status,
    policies: async () => policies,
    config: async (against) => (against === null ? config : { ...config, lastReload: null }),
    reload: async () => ({ ok: true, value: unchanged }),
    confirm: async () => ({ ok: true, value: { confirmed } }),
    takeBack: async () => ({ ok: true, value: unchanged }),
    drain: () => {
      drains += 1;
    },
    drainTimes: () => ({ state: "draining", delaySeconds: 0, timeoutSeconds: 25 }),
    subscribe(onEvent) {
      listeners.add(onEvent);
      return () => listeners.delete(onEvent);
    },
    recent,
    clients,
    rules: noRules,
    ...changes,
    publish: (event) => {
      for (const listener of listeners) listener(event);
    },
    subscribers: () => listeners.size,
    drains: () => drains,
  };
}
