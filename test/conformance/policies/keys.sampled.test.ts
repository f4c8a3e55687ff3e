// What a client chooses for the key of a policy gains it nothing: a header or token that is missing, given twice, empty or
// too long counts as its client, and so does every spelling of a path that a backend may read as a matched one.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import type { KeyPart, Policy } from "../../../src/core/policy.ts";
import type { Settings } from "../../../src/core/settings.ts";
import { digestOf } from "../../auth/digest.ts";
import { pathReaders } from "../../core/path-readers.ts";
import { useCleanup } from "../../support/cleanup.ts";
import { startTestGateway, type TestGateway } from "../../support/gateway.ts";
import { slidingPolicy } from "../../support/policy.ts";
import { RawConnection } from "../../support/raw-connection.ts";
import { inFullOr } from "../../support/runs.ts";
import { scratchFolder } from "../../support/scratch.ts";
import { spellingsOf } from "../paths/spellings.ts";
import { startRecordingUpstream } from "../recording-upstream.ts";

const cleanup = useCleanup();
const limit = 3;
const windowMs = 3_600_000;

/** Sends a request after the one before, and returns its status. */
type Ask = (lines?: readonly string[], target?: string, method?: string) => Promise<number>;

async function startGateway(
  policy: Partial<Policy>,
  auth: Partial<Settings["auth"]> = { mode: "off" },
): Promise<TestGateway> {
  const upstream = cleanup(await startRecordingUpstream());
  const policies = [slidingPolicy({ limit, windowMs, ...policy })];
  const overrides = { policies, auth, drain: { timeoutMs: 0 } };
  return cleanup(await startTestGateway({ upstreamUrl: upstream.url, overrides }));
}

/** Every address of 127.0.0.0/8 is this machine, so each can be a client of its own. */
function clientOf({ traffic }: TestGateway, localAddress = "127.0.0.1"): Ask {
  let client = new RawConnection(traffic.port, { localAddress });
  cleanup(() => client.destroy());
  return async (lines = [], target = "/v2/x", method = "GET") => {
    const head = [`${method} ${target} HTTP/1.1`, "Host: a", ...lines];
    const { status, rawHeaders } = await client.ask(`${head.join("\r\n")}\r\n\r\n`, { method });
    if (!rawHeaders.includes("close")) return status;
    client.destroy();
    client = new RawConnection(traffic.port, { localAddress });
    return status;
  };
}

async function startClient(...options: Parameters<typeof startGateway>): Promise<Ask> {
  return clientOf(await startGateway(...options));
}

/** Asks until the first refusal; returns the number of requests before. */
async function quotaOf(ask: () => Promise<number>): Promise<number> {
  for (let admitted = 0; ; admitted += 1) if ((await ask()) === 429) return admitted;
}

const plan: KeyPart = { kind: "header", name: "x-plan" };
const bearer = (token: string): string => `Authorization: Bearer ${token}`;
const long = "x".repeat(8192);

describe("a header", () => {
  const broken: Readonly<Record<string, readonly string[]>> = {
    missing: [],
    empty: ["X-Plan:"],
    blank: ["X-Plan: \t "],
    twice: ["X-Plan: gold", "X-Plan: gold"],
    "twice in another case": ["X-Plan: gold", "x-plAN: tin"],
    "twice, once empty": ["X-Plan:", "X-Plan: gold"],
    "8 KiB long": [`X-Plan: ${long}`],
  };

  test.each(Object.entries(broken))("%s: has the quota of its client and no more", async (_, lines) => {
    const ask = await startClient({ key: [plan] });
    expect(await quotaOf(() => ask(lines))).toBe(limit);
    for (const others of Object.values(broken)) expect(await ask(others)).toBe(429);
    expect(await quotaOf(() => ask(["X-PLAN:\tgold "]))).toBe(limit);
  });

  test("missing: does not take from the quota of another client without it", async () => {
    const gateway = await startGateway({ key: [plan] });
    for (const address of ["127.0.0.1", "127.0.0.2"]) expect(await quotaOf(clientOf(gateway, address))).toBe(limit);
    const named = clientOf(gateway, "127.0.0.3");
    expect(await quotaOf(() => named(["X-Plan: 127.0.0.4"]))).toBe(limit);
    expect(await quotaOf(clientOf(gateway, "127.0.0.4"))).toBe(limit);
  });

  test("a limit for one value needs this value, once", async () => {
    const ask = await startClient({ key: [plan], overrides: [{ part: "header", value: "gold", limit: limit * 2 }] });
    expect(await quotaOf(() => ask(["x-plan: gold"]))).toBe(limit * 2);
    expect(await quotaOf(() => ask(["x-plan: gold", "x-plan: gold"]))).toBe(limit);
    expect(await quotaOf(() => ask(["x-plan: Gold"]))).toBe(limit);
  });
});

describe("a token", () => {
  const broken: Readonly<Record<string, readonly string[]>> = {
    missing: [],
    "of another scheme": ["Authorization: Basic Z29sZA=="],
    empty: ["Authorization: Bearer"],
    twice: [bearer("gold"), bearer("gold")],
    "twice, of different schemes": [bearer("gold"), "authorization: Basic Z29sZA=="],
    malformed: [bearer("gold tin")],
    "of two in a list": [bearer("gold,tin")],
  };

  test.each(Object.entries(broken))("%s: has the quota of its client and no more", async (_, lines) => {
    const ask = await startClient({ key: [{ kind: "token" }] });
    expect(await quotaOf(() => ask(lines))).toBe(limit);
    for (const others of Object.values(broken)) expect(await ask(others)).toBe(429);
    expect(await quotaOf(() => ask([bearer("gold")]))).toBe(limit);
  });

  test("the same where a token is required: the 401 of all of them together is the client's quota", async () => {
    const ask = await startClient({ key: [{ kind: "token" }] }, { mode: "presence" });
    const statuses: number[] = [];
    for (const lines of Object.values(broken)) statuses.push(await ask(lines));
    expect(statuses).toEqual([401, 401, 401, 429, 429, 429, 429]);
  });
});

describe("listed tokens", () => {
  async function withTokens(policy: Partial<Policy>): Promise<Ask> {
    const folder = scratchFolder(cleanup);
    const tokensFile = join(folder, "tokens");
    const lines = [
      `${digestOf("a1")} # partner`,
      `${digestOf("a2")} # partner`,
      `${digestOf("b")} # other`,
      digestOf("c"),
    ];
    writeFileSync(tokensFile, lines.join("\n"));
    return startClient(policy, { mode: "tokens", tokensFile });
  }

  test("by subject: the tokens of one name have one quota, and one without a name has its client's", async () => {
    const ask = await withTokens({ key: [{ kind: "subject" }] });
    expect([await ask([bearer("a1")]), await ask([bearer("a2")]), await ask([bearer("a1")])]).toEqual([200, 200, 200]);
    expect([await ask([bearer("a1")]), await ask([bearer("a2")])]).toEqual([429, 429]);
    expect(await quotaOf(() => ask([bearer("b")]))).toBe(limit);
    expect(await quotaOf(() => ask([bearer("c")]))).toBe(limit);
  });

  test("by token: each has its own quota, which nobody without it can spend", async () => {
    const ask = await withTokens({
      key: [{ kind: "token" }],
      overrides: [
        { part: "token", value: "other", limit: 1 },
        { part: "token", value: digestOf("c"), limit: 2 },
      ],
    });
    for (const guess of ["partner", digestOf("a1"), "A1"]) expect(await ask([bearer(guess)])).toBe(401);
    expect(await ask([bearer("a1"), bearer("a1")])).toBe(401);
    expect(await quotaOf(() => ask([bearer("a1")]))).toBe(limit);
    expect(await quotaOf(() => ask([bearer("a2")]))).toBe(limit);
    expect(await quotaOf(() => ask([bearer("b")]))).toBe(1);
    expect(await quotaOf(() => ask([bearer("c")]))).toBe(2);
  });
});

test("no value of a key is in the log or the metrics", async () => {
  const key: KeyPart[] = [plan, { kind: "token" }, { kind: "client" }];
  const gateway = await startGateway({ key, overrides: [{ part: "header", value: "secret-plan", limit: 1 }] });
  const ask = clientOf(gateway);
  const lines = ["X-Plan: secret-plan", bearer("secret-token")];
  expect(await quotaOf(() => ask(lines))).toBe(1);
  const metrics = await (await fetch(`${gateway.adminUrl}/metrics`)).text();
  expect(metrics).toContain('headgate_decisions_total{policy="per-ip",outcome="throttled"} 1');
  expect(gateway.logLines.filter(({ status }) => status === 429)).toHaveLength(1);
  for (const text of [metrics, JSON.stringify(gateway.logLines)]) {
    expect(text).not.toMatch(/secret-(plan|token)/);
    expect(text).not.toContain(digestOf("secret-token"));
  }
});

test("unusual methods have one quota together", async () => {
  const ask = await startClient({ key: [{ kind: "client" }, { kind: "method" }] });
  const methods = ["PURGE", "PROPFIND", "LINK", "UNLINK", "MKCOL"];
  const statuses: number[] = [];
  for (const method of methods) statuses.push(await ask([], "/v2/x", method));
  expect(statuses).toEqual([200, 200, 200, 429, 429]);
  expect(await ask([], "/v2/x", "GET")).toBe(200);
});

describe("a policy about one path", () => {
  const stride = inFullOr(4, 11);
  /** A part of the corpus; the tests of the matcher have all of it. */
  const spellings = spellingsOf("v1", "v2").filter((_, i) => i % stride === 0);
  const isRead = (target: string, path: string): boolean =>
    pathReaders.some(({ read }) => read(target.replace(/\?.*$/s, "")).toLowerCase().replace(/\/$/, "") === path);

  test("is asked for every spelling that a backend may read as this path", async () => {
    const ask = await startClient({ limit: 1, match: { paths: ["/v1/x"], methods: ["GET"] } });
    expect(await ask([], "/v1/x")).toBe(200);
    const passed: string[] = [];
    let read = 0;
    for (const target of spellings) {
      if (!isRead(target, "/v1/x")) continue;
      read += 1;
      const status = await ask([], target);
      if (status !== 429) passed.push(`${target} (${status})`);
    }
    expect(passed).toEqual([]);
    expect(read).toBeGreaterThan(50);
  });

  test("is not asked for other paths and methods", async () => {
    const ask = await startClient({ limit: 1, match: { paths: ["/v1/x"], methods: ["GET"] } });
    expect(await ask([], "/v1/x")).toBe(200);
    for (const target of ["/v1/y", "/v2/x", "/v1/x/y", "/v1/xx", "/v1", "/v1/%78y", "/v2/x?/v1/x"]) {
      expect([target, await ask([], target)]).toEqual([target, 200]);
    }
    expect(await ask([], "/v1/x", "PUT")).toBe(200);
    expect(await ask([], "/v1/x?a=b")).toBe(429);
    expect(await ask([], "/V1/%78/")).toBe(429);
  });
});
