// The table at the top of docs/authentication.md: each cell on every carrier, with one thread and with two, with and without
// a shared store. And the mix that everybody wants first, attacked.
import { describe, expect, test } from "vitest";
import type { Settings } from "../../src/core/settings.ts";
import { read } from "../docs/markdown.ts";
import { type Cleanup, useCleanup } from "../support/cleanup.ts";
import { eventually } from "../support/eventually.ts";
import { metric } from "../support/metrics.ts";
import { redisNeeded, skipRedis, startRedis } from "../support/redis-servers.ts";
import { threadCounts } from "../support/runs.ts";
import { sharedCounters } from "../support/shared-settings.ts";
import { useTls } from "../support/tls-listener.ts";
import { stageTokens, type TokenAnswer } from "./carriers.ts";
import { digestOf } from "./digest.ts";

const cleanup = useCleanup();
const tls = useTls();

// Windows are longer than a test may take: nothing is free again before its end.
const policies = `
policies:
  - { name: by-address, who: others, limit: 500, window: 1h }
  - { name: by-partner, who: verified, limit: 1000, window: 1h, key: [subject] }
`;
const yaml = `
auth:
  mode: tokens
  tokensFile: tokens.txt
  rules:
    - { paths: [/v1/off], mode: "off" }
    - { paths: [/v1/presence], mode: presence }
    - { paths: [/v1/tokens], mode: tokens, scopes: [export] }
${policies}`;
const tokens = [
  `${digestOf("old")} expires=2020-01-01T00:00:00Z scopes=export # old`,
  `${digestOf("narrow")} scopes=read # narrow`,
  `${digestOf("good")} scopes=read,export # good`,
];

/** The tokens of the columns, in their order. */
const columns = [null, "a,b", "stranger", "old", "narrow", "good"] as const;

const cells = [
  ...read("docs/authentication.md").matchAll(/^\| `(off|presence|tokens)` \|((?: \d{3}, \w+ \|){6})$/gm),
].map(([, mode = "", row = ""]) => ({
  mode,
  answers: [...row.matchAll(/(\d{3}), (\w+)/g)].map(([, status, whom]) => [Number(status), whom] as const),
}));

test("the page has a row for each mode", () => {
  expect(cells.map(({ mode }) => mode)).toEqual(["off", "presence", "tokens"]);
});

/** Longer than a busy machine keeps the store from its processor. */
const patientMs = 5_000;

const storeFor = async (open: Cleanup): Promise<Partial<Settings["counters"]>> => {
  const redis = await startRedis();
  open(() => redis.stop());
  const { redis: shared, ...counters } = sharedCounters(redis.port);
  // A gateway that waits no longer counts by itself, and three of them admit more than one.
  return { ...counters, redis: shared && { ...shared, store: { ...shared.store, waitMs: patientMs } } };
};

const stages = [
  { name: "one thread", workers: 1, isShared: false },
  { name: "two threads", workers: 2, isShared: false },
  { name: `one thread and a store${redisNeeded}`, workers: 1, isShared: true },
  { name: `two threads and a store${redisNeeded}`, workers: 2, isShared: true },
];

describe.each(stages.filter(({ workers }) => threadCounts.includes(workers)))("with $name", ({ workers, isShared }) => {
  test.skipIf(isShared && skipRedis)("each cell has its status, and is charged to whom the table says", async () => {
    const { carriers } = await stageTokens(cleanup, {
      ...{ tls: tls(), yaml, tokens, workers, withPlugin: workers === 1 && !isShared },
      ...(isShared ? { counters: await storeFor(cleanup) } : {}),
    });
    for (const [i, { name, ask }] of carriers.entries()) {
      const client = `192.0.2.${i + 1}`;
      const spent = new Map<string, number>();
      for (const { mode, answers } of cells) {
        for (const [column, [status, whom]] of answers.entries()) {
          const token = columns[column] ?? null;
          const answer = await ask({ client, path: `/v1/${mode}`, token });
          const limit = whom === "token" ? "1000" : "500";
          expect([name, mode, token, answer.status, answer.fields.get("ratelimit-limit")]).toEqual([
            ...[name, mode, token, status, limit],
          ]);
          if (isShared) continue;
          // The carriers of a gateway share the counters of its partners.
          const key = whom === "token" ? `${name === "plugin" ? name : ""} ${token}` : client;
          const before = spent.get(key) ?? (whom === "token" ? partnersSpent.get(key) : undefined) ?? 0;
          (whom === "token" ? partnersSpent : spent).set(key, before + 1);
          expect(answer.fields.get("ratelimit-remaining")).toBe(`${Number(limit) - before - 1}`);
        }
      }
    }
    partnersSpent.clear();
  });
});

const partnersSpent = new Map<string, number>();

test("the start names the paths that are open, and those whose tokens nobody verifies", async () => {
  const { gateway } = await stageTokens(cleanup, { tls: tls(), yaml, tokens });
  const listed = { open: ["/v1/off"], unverified: ["/v1/presence"] };
  expect(gateway.logLines).toContainEqual(
    expect.objectContaining({ msg: "limited paths without a verified token", ...listed }),
  );
});

const mix = `
auth: { mode: tokens, tokensFile: tokens.txt }
policies:
  - { name: by-address, who: others, limit: 100, window: 1h }
  - { name: by-partner, who: verified, limit: 1000, window: 1h, key: [subject] }
refusals: { perSecond: 50, burst: 500 }
`;
const isThrottled = ({ status }: TokenAnswer): boolean => status === 429;
const client = "192.0.2.1";

describe("100 by address and 1,000 by partner, attacked", () => {
  /** Without, malformed, invented, expired, and the last two of these again and again. */
  const guess = (i: number): string | null => [null, "a,b", `guess-${i}`, "old", "guess"][i % 5] ?? null;

  test("an attacker gets 100 over all carriers and ways, while the partner behind its address gets his 1,000", async () => {
    const { carriers } = await stageTokens(cleanup, { tls: tls(), yaml: mix, tokens });
    const [, , authRequest] = carriers;
    // The partner was here before; another one comes while the attack goes on, and has to try again until he is known. He comes
    // without TLS: a thousand handshakes would take most of the time.
    expect((await authRequest?.ask({ client, token: "good" }))?.status).toBe(200);
    const attack = async (from: number, to: number): Promise<TokenAnswer[]> => {
      const answers: TokenAnswer[] = [];
      for (let i = from; i < to; i += 20) {
        const asked = Array.from({ length: 20 }, (_, k) => carriers[(i + k) % 4]?.ask({ client, token: guess(i + k) }));
        for (const answer of await Promise.all(asked)) if (answer !== undefined) answers.push(answer);
      }
      return answers;
    };
    const partner = async (): Promise<TokenAnswer[]> => {
      const answers: TokenAnswer[] = [];
      for (let i = 0; i < 1010; i += 10) {
        const asked = Array.from({ length: 10 }, () => authRequest?.ask({ client, token: "good" }));
        for (const answer of await Promise.all(asked)) if (answer !== undefined) answers.push(answer);
      }
      return answers;
    };
    const [attacked, served] = await Promise.all([attack(0, 1200), partner()]);
    expect(attacked.filter((answer) => !isThrottled(answer))).toHaveLength(100);
    expect(new Set(attacked.map(({ status }) => status))).toEqual(new Set([401, 429]));
    expect(served.filter(({ status }) => status === 200)).toHaveLength(999);
    // Who has an address of his own pays for nobody.
    const other = await authRequest?.ask({ client: "192.0.2.2", token: null });
    expect([other?.status, other?.fields.get("ratelimit-remaining")]).toEqual([401, "99"]);
  });

  test.skipIf(skipRedis)(`over three gateways, too${redisNeeded}`, async () => {
    const counters = await storeFor(cleanup);
    const stages = await Promise.all(
      Array.from({ length: 3 }, () => stageTokens(cleanup, { tls: tls(), yaml: mix, tokens, counters })),
    );
    for (const { gateway } of stages) {
      await eventually(
        "the store is up",
        async () => (await metric(gateway, 'headgate_store_state{state="up"}')) === 1,
      );
    }
    const ports = stages.map(({ carriers }) => carriers[2]);
    const answers: TokenAnswer[] = [];
    for (let i = 0; i < 600; i += 30) {
      const asked = Array.from({ length: 30 }, (_, k) => ports[k % 3]?.ask({ client, token: guess(i + k) }));
      for (const answer of await Promise.all(asked)) if (answer !== undefined) answers.push(answer);
    }
    const passed = answers.filter((answer) => !isThrottled(answer)).length;
    expect(passed).toBeLessThanOrEqual(100);
    expect(passed).toBeGreaterThan(90);
    const served: TokenAnswer[] = [];
    for (let i = 0; i < 1200; i += 30) {
      const asked = Array.from({ length: 30 }, (_, k) => ports[k % 3]?.ask({ client, token: "good" }));
      for (const answer of await Promise.all(asked)) if (answer !== undefined) served.push(answer);
    }
    const admitted = served.filter(({ status }) => status === 200).length;
    expect(admitted).toBeLessThanOrEqual(1000);
    expect(admitted).toBeGreaterThan(950);
  });
});
