// What an operator reads about clients: what is counted of one, and who uses most; and that a forgiveness holds everywhere.
import { describe, expect, test } from "vitest";
import type { Policy } from "../../src/core/policy.ts";
import type { ListQuery } from "../../src/limits/key-listing.ts";
import { useCleanup } from "../support/cleanup.ts";
import { type Overrides, startTestGateway } from "../support/gateway.ts";
import { metric } from "../support/metrics.ts";
import { slidingPolicy } from "../support/policy.ts";
import { threadCounts } from "../support/runs.ts";
import { startUpstream } from "../support/upstream.ts";
import { Stage } from "./clients-stage.ts";

const cleanup = useCleanup();

const perIp = slidingPolicy({ name: "per-ip", limit: 3, windowMs: 60_000 });
const perDay: Policy = {
  ...perIp,
  name: "per-day",
  limit: 100,
  rate: { kind: "calendar", per: "day", timezone: "UTC" },
};
const atOnce: Policy = { ...perIp, name: "at-once", rate: { kind: "concurrency" } };
const guesses = slidingPolicy({ name: "guesses", limit: 10, windowMs: 60_000, chargeStatuses: [401] });
const byToken: Policy = {
  ...slidingPolicy({ name: "by-token", limit: 50, windowMs: 60_000 }),
  key: [{ kind: "token" }],
};
const all: Policy = { ...slidingPolicy({ name: "all", limit: 50, windowMs: 60_000 }), key: [] };

const tokens = { mode: "tokens", rules: [] } as const;

function send(stage: Stage, client: string, token = "a", more: readonly string[] = []) {
  const rawHeaders = ["Host", "a", "Authorization", `Bearer ${token}`, ...more];
  return stage.send({ method: "GET", target: "/v2/x", client, rawHeaders });
}

const me = { kind: "client", value: "192.0.2.1" } as const;

describe("the state of a client", () => {
  test("is what each policy has counted, and when it counts no more", async () => {
    const stage = new Stage({ policies: [perIp, perDay, atOnce, guesses, byToken, all], auth: tokens });
    const wallMs = stage.clock.wallMs();
    for (const gapMs of [0, 1_000]) {
      stage.clock.advance(gapMs);
      send(stage, me.value);
    }
    const [first] = stage.held;
    first?.end(401);
    const dump = stage.words.slice();
    const { policies = [] } = (await stage.clients.state(me)) ?? {};
    expect(stage.words).toEqual(dump);
    const shown = policies.map(({ policy, keys, gap }) => [policy.name, gap, keys.map(({ coarse, ...key }) => key)]);
    const common = { key: "client:192.0.2.1", ...{ method: null, route: null, exemptBy: null } };
    const admissions = [wallMs, wallMs + 1_000].map((atMs) => ({ atMs, units: 1 }));
    const endMs = (Math.floor(wallMs / 86_400_000) + 1) * 86_400_000;
    const sliding = { admissions, units: 2, resetMs: wallMs + 60_000, periodEndMs: null };
    expect(shown).toEqual([
      ["per-ip", null, [{ ...common, ...sliding, limit: 3, remaining: 1, heldUnits: null }]],
      [
        "per-day",
        null,
        [
          {
            ...common,
            admissions: [],
            units: 2,
            limit: 100,
            remaining: 98,
            resetMs: endMs,
            periodEndMs: endMs,
            heldUnits: null,
          },
        ],
      ],
      [
        "at-once",
        null,
        [
          {
            ...common,
            ...{ admissions: [], units: 1, limit: 3, remaining: 2, periodEndMs: null, heldUnits: null },
            resetMs: null,
          },
        ],
      ],
      ["guesses", null, [{ ...common, ...sliding, limit: 10, remaining: 8, heldUnits: 1 }]],
      [
        "by-token",
        "requests with a token have keys of their own",
        [expect.objectContaining({ units: 0, admissions: [], key: expect.stringMatching(/^key:/) })],
      ],
      ["all", "it counts all clients together", []],
    ]);
  });

  test("of a token is found by its name, in whatever address it was used", async () => {
    const stage = new Stage({ policies: [byToken], auth: tokens });
    for (const client of ["192.0.2.1", "2001:db8::1"]) send(stage, client);
    const state = await stage.clients.state({ kind: "token", value: "alice" });
    expect(state?.policies).toMatchObject([{ keys: [{ units: 2, remaining: 48 }], gap: null }]);
    const [{ key = "" } = {}] = state?.policies[0]?.keys ?? [];
    const byHash = await stage.clients.state({ kind: "key", value: key.slice("key:".length) });
    expect(byHash?.policies).toMatchObject([{ keys: [{ key, units: 2 }] }]);
  });

  test("shows an override, an exemption, and no more than 1,000 admissions", async () => {
    const policies = [
      {
        ...perIp,
        limit: 5_000,
        exempt: ["10.0.0.0/8"],
        overrides: [{ part: "client", value: "192.0.2.1", limit: 7_000 } as const],
      },
    ];
    const stage = new Stage({ policies });
    for (let i = 0; i < 1_500; i += 1) {
      stage.clock.advance(1);
      send(stage, me.value);
    }
    const key = async (value: string) => (await stage.clients.state({ kind: "client", value }))?.policies[0]?.keys[0];
    const mine = await key(me.value);
    expect(mine).toMatchObject({ limit: 7_000, units: 1_500, remaining: 5_500, exemptBy: null });
    expect(mine?.admissions).toHaveLength(1_000);
    expect(await key("10.1.2.3")).toMatchObject({ limit: 5_000, units: 0, exemptBy: "10.0.0.0/8" });
    expect(await stage.clients.state({ kind: "client", value: "10.0.0.0/8" })).toBeNull();
  });

  test("comes back when the oldest that still counts expires", async () => {
    const stage = new Stage({ policies: [perIp] });
    const wallMs = stage.clock.wallMs();
    for (const gapMs of [0, 20_000, 20_000]) {
      stage.clock.advance(gapMs);
      send(stage, me.value);
    }
    stage.clock.advance(25_000);
    const [state] = (await stage.clients.state(me))?.policies ?? [];
    expect(state?.keys).toMatchObject([{ units: 2, remaining: 1, resetMs: wallMs + 80_000 }]);
    expect(state?.keys[0]?.admissions.map(({ atMs }) => atMs - wallMs)).toEqual([20_000, 40_000]);
  });

  test("leaves out what has expired, without removing it, and ends a period without beginning the next", async () => {
    const stage = new Stage({ policies: [perIp, perDay] });
    send(stage, me.value);
    stage.clock.advance(86_400_000);
    const dump = stage.words.slice();
    const state = await stage.clients.state(me);
    expect(state?.policies).toMatchObject([
      { keys: [{ units: 0, admissions: [], remaining: 3 }] },
      { keys: [{ units: 0, remaining: 100 }] },
    ]);
    expect(stage.words).toEqual(dump);
  });
});

describe("the list of clients", () => {
  const query: ListQuery = { policy: null, sort: "used", search: "", limit: 10 };

  /** Names with what they have used, in their order. */
  async function listed(stage: Stage, more: Partial<ListQuery>) {
    const keys = await stage.clients.list({ ...query, ...more });
    return keys.map(({ policy, name, used }) => `${policy} ${name} ${used}`);
  }

  function filled(): Stage {
    const stage = new Stage({ policies: [{ ...perIp, limit: 100 }, byToken], auth: tokens });
    const uses: [client: string, times: number, token: string][] = [
      ["203.0.113.7", 5, "a"],
      ["203.0.113.70", 4, "b"],
      ["203.0.11.1", 3, "b"],
      ["2001:db8:1:2::9", 2, "a"],
      ["2001:db8:20::1", 1, "a"],
    ];
    for (const [client, times, token] of uses) {
      stage.clock.advance(1_000);
      for (let i = 0; i < times; i += 1) send(stage, client, token);
    }
    return stage;
  }

  test.each<[Partial<ListQuery>, string[]]>([
    [{ limit: 3 }, ["by-token alice 8", "by-token bob 7", "per-ip 203.0.113.7 5"]],
    [{ policy: "by-token" }, ["by-token alice 8", "by-token bob 7"]],
    [{ policy: "by-token", search: "al" }, ["by-token alice 8"]],
    [{ search: "203.0.113.7" }, ["per-ip 203.0.113.7 5", "per-ip 203.0.113.70 4"]],
    [{ search: "203.0.11" }, ["per-ip 203.0.113.7 5", "per-ip 203.0.113.70 4", "per-ip 203.0.11.1 3"]],
    [{ search: "203.0.11." }, ["per-ip 203.0.11.1 3"]],
    [{ search: "203.0.113.0/24" }, ["per-ip 203.0.113.7 5", "per-ip 203.0.113.70 4"]],
    [{ search: "203.0.113.7/32" }, ["per-ip 203.0.113.7 5"]],
    [{ search: "2001:db8:" }, ["per-ip 2001:db8:1:2::/64 2", "per-ip 2001:db8:20::/64 1"]],
    [{ search: "2001:db8:2" }, ["per-ip 2001:db8:20::/64 1"]],
    [{ search: "2001:db8:20::/6" }, ["per-ip 2001:db8:1:2::/64 2", "per-ip 2001:db8:20::/64 1"]],
    [{ search: "2001:db8:1::/48" }, ["per-ip 2001:db8:1:2::/64 2"]],
    [{ search: "203.0.113.7x" }, []],
    [{ search: "203.0.113.7." }, []],
    [{ policy: "none" }, []],
    [{ policy: "per-ip", sort: "recent", limit: 2 }, ["per-ip 2001:db8:20::/64 1", "per-ip 2001:db8:1:2::/64 2"]],
  ])("of %j is in order", async (more, expected) => {
    expect(await listed(filled(), more)).toEqual(expected);
  });

  test("by share, begins with who is nearest to the limit", async () => {
    const stage = new Stage({
      policies: [{ ...perIp, limit: 10 }, byToken, { ...perIp, name: "shadow", limit: 1, mode: "shadow" }],
      auth: tokens,
    });
    for (const client of ["192.0.2.1", "192.0.2.2", "192.0.2.3"]) send(stage, client, "a");
    for (let i = 0; i < 2; i += 1) send(stage, "192.0.2.3", "b");
    const nearest = ["per-ip 192.0.2.3 3", "per-ip 192.0.2.1 1", "per-ip 192.0.2.2 1"];
    expect((await listed(stage, { sort: "share", limit: 1 }))[0]).toBe(nearest[0]);
    expect((await listed(stage, { sort: "used" })).slice(0, 2).sort()).toEqual(["by-token alice 3", nearest[0]]);
    const all = await listed(stage, { sort: "share" });
    expect([all[0], all.slice(1, 3).sort(), all.slice(3, 5)]).toEqual([
      nearest[0],
      nearest.slice(1),
      ["by-token alice 3", "by-token bob 2"],
    ]);
    expect(all.slice(5).every((line) => line.startsWith("shadow "))).toBe(true);
    expect(all.length).toBeGreaterThan(5);
  });

  test("has what is left, when it comes back, and the name under which it is found", async () => {
    const stage = new Stage({ policies: [perIp, byToken], auth: tokens });
    const wallMs = stage.clock.wallMs();
    send(stage, me.value);
    stage.clock.advance(10);
    const common = { coarse: null, method: null, route: null, used: 1, resetMs: wallMs + 60_000, lastMs: wallMs };
    expect(await stage.clients.list(query)).toEqual(
      expect.arrayContaining([
        { policy: "per-ip", name: "192.0.2.1", id: "client:192.0.2.1", limit: 3, remaining: 2, ...common },
        { policy: "by-token", name: "alice", id: "token:alice", limit: 50, remaining: 49, ...common },
      ]),
    );
  });

  test("leaves nothing where a rule has lowered the limit below what is used", async () => {
    const stage = new Stage({ policies: [perIp] });
    for (let i = 0; i < 2; i += 1) send(stage, me.value);
    stage.set([{ about: { kind: "client", value: me.value }, action: "limit", policy: "per-ip", limit: 1 }]);
    expect(await stage.clients.list(query)).toMatchObject([{ limit: 1, used: 2, remaining: 0 }]);
  });

  test("shows a token that is not listed by its hash alone, which finds it", async () => {
    const stage = new Stage({ policies: [byToken] });
    send(stage, me.value, "secret");
    const [key] = await stage.clients.list(query);
    expect(key?.id).toBe(`key:${key?.id?.slice(4)}`);
    expect(key?.name).toBe(key?.id?.slice(4, 16));
    expect(await listed(stage, { search: key?.name ?? "" })).toHaveLength(1);
    expect(await listed(stage, { search: `${key?.name.slice(0, 5)}` })).toHaveLength(1);
    expect(await stage.forgive({ kind: "key", value: key?.id?.slice(4) ?? "" })).toMatchObject({
      policies: [{ units: 1 }],
    });
    expect(await listed(stage, {})).toEqual([]);
  });

  test("has no expired key, and counts only what has not expired of the others", async () => {
    const stage = new Stage({ policies: [perIp] });
    send(stage, "192.0.2.1");
    send(stage, "192.0.2.2");
    stage.clock.advance(30_000);
    send(stage, "192.0.2.2");
    stage.clock.advance(30_000);
    const dump = stage.words.slice();
    expect(await listed(stage, {})).toEqual(["per-ip 192.0.2.2 1"]);
    expect(stage.words).toEqual(dump);
  });

  test("is the same as a whole sort, of many keys in portions", async () => {
    const stage = new Stage({ policies: [{ ...perIp, limit: 9_000 }] });
    const used = new Map<string, number>();
    for (let i = 0; i < 8_000; i += 1) {
      // Some of them hundreds of times more often than others.
      const client = `10.0.${i % 3}.${Math.floor(((i * i * 31) % 65_521) ** 0.5)}`;
      send(stage, client);
      used.set(client, (used.get(client) ?? 0) + 1);
    }
    const keys = await stage.clients.list({ ...query, limit: 100 });
    expect(used.size).toBeGreaterThan(500);
    const most = [...used.values()].sort((a, b) => b - a).slice(0, 100);
    expect(keys.map((key) => key.used)).toEqual(most);
    for (const key of keys) expect(key.used).toBe(used.get(key.name));
  });

  test("is read once for all who ask the same meanwhile, and answers each of several questions", async () => {
    const stage = filled();
    const [one, same, other] = ["used", "used", "recent"].map((sort) =>
      stage.clients.list({ ...query, policy: "per-ip", sort: sort as "used", limit: 1 }),
    );
    expect((await one)?.[0]?.name).toBe("203.0.113.7");
    expect(await same).toEqual(await one);
    expect((await other)?.[0]?.name).toBe("2001:db8:20::/64");
  });
});

test("a network that is counted as one is listed as such, and shown as what counts of its clients", async () => {
  const stage = new Stage({ policies: [{ ...perIp, limit: 1 }] });
  for (let i = 0; i < 16_000; i += 1) send(stage, `2001:db8:1:${i.toString(16)}::1`);
  const network = await stage.clients.list({ policy: null, sort: "used", search: "2001:db8:1::/64", limit: 10 });
  const coarse = network.filter((key) => key.coarse !== null);
  expect(coarse).toMatchObject([{ name: "2001:db8:1::/48", id: null, coarse: "network", remaining: 0, resetMs: null }]);
  const late = { kind: "client", value: "2001:db8:1:ffff::1" } as const;
  const dump = stage.words.slice();
  expect((await stage.clients.state(late))?.policies).toMatchObject([{ keys: [{ units: 1, coarse: "network" }] }]);
  const request = { method: "GET", target: "/v2/x", client: late.value, rawHeaders: [] };
  expect(await stage.clients.check(request)).toMatchObject({ reason: "throttled" });
  expect(stage.words).toEqual(dump);
  expect(await stage.forgive(late)).toMatchObject({ coarse: true, policies: [{ coarse: "network" }] });
  expect((await stage.clients.state(late))?.policies).toMatchObject([{ keys: [{ units: 0, coarse: null }] }]);
});

describe.each(threadCounts)("a gateway with %d threads that carry traffic", (workers) => {
  async function start(overrides: Overrides = {}) {
    const upstream = cleanup(await startUpstream());
    const gateway = await startTestGateway({ upstreamUrl: upstream.url, overrides: { workers, ...overrides } });
    cleanup(() => gateway.close());
    const ask = async (): Promise<number> => {
      const headers = { authorization: "Bearer secret-token", connection: "close" };
      const response = await fetch(`${gateway.url}/v2/x`, { headers });
      await response.text();
      return response.status;
    };
    return { gateway, ask };
  }

  test("lists, shows, tries and forgives what all of them have counted", async () => {
    const { gateway, ask } = await start({ policies: [perIp] });
    const { clients } = gateway;
    expect([await ask(), await ask(), await ask(), await ask()]).toEqual([200, 200, 200, 429]);
    const address = { kind: "client", value: "127.0.0.1" } as const;
    const [key] = await clients.list({ policy: "per-ip", sort: "used", search: "127.", limit: 5 });
    expect(key).toMatchObject({ name: "127.0.0.1", used: 3, remaining: 0 });
    expect((await clients.state(address))?.policies).toMatchObject([{ keys: [{ units: 3, remaining: 0 }] }]);
    const request = { method: "GET", target: "/v2/x", client: "127.0.0.1", rawHeaders: ["Authorization", "Bearer t"] };
    expect(await clients.check(request)).toMatchObject({ status: 429, reason: "throttled", policy: "per-ip" });
    const forgiven = await clients.forgive([{ name: address, seq: 0 }]);
    expect(forgiven).toMatchObject([{ policies: [{ policy: "per-ip", keys: 1, units: 3 }] }]);
    expect(await clients.check(request)).toMatchObject({ status: null });
    expect([await ask(), await ask(), await ask(), await ask()]).toEqual([200, 200, 200, 429]);
    expect(await metric(gateway, 'headgate_forgiven_keys_total{policy="per-ip"}')).toBe(1);
  });
});
