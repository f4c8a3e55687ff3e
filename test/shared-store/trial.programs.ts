// Reloads on trial at gateways of one store: each judges for itself, and one that takes back tells the others.
import { describe, expect, test } from "vitest";
import { useCleanup } from "../support/cleanup.ts";
import { eventually } from "../support/eventually.ts";
import type { TestGateway } from "../support/gateway.ts";
import { slidingPolicy } from "../support/policy.ts";
import { redisNeeded, skipRedis } from "../support/redis-servers.ts";
import { threadCounts } from "../support/runs.ts";
import { askAll, heardMs, limit, logReadBy, newClient, type RulesStage, replicas, stageRules } from "./rules-stage.ts";

const cleanup = useCleanup();
const share = Math.floor(limit / replicas);
const told = "another gateway has taken a reload on trial back";
const lines = ({ logLines }: TestGateway, message: string) => logLines.filter(({ msg }) => msg === message);
const mistake = [slidingPolicy({ limit: 1, windowMs: 3_600_000 })];
const terms = { confirmWithinMs: 300_000, refusedShare: 0.05, unconfirmed: "takeBack" } as const;

/** The settings that a gateway has, but for the limit. */
async function tryMistake(stage: RulesStage, gateway: TestGateway, workers: number): Promise<void> {
  expect(await gateway.reload(stage.settings({ workers, policies: mistake }), terms)).toMatchObject({ ok: true });
}

describe.skipIf(skipRedis).each(threadCounts)(`two gateways with %i threads${redisNeeded}`, (workers) => {
  test("one takes a limit of 1 back by its share of the old one, counts as before, and tells the other", async () => {
    const stage = await stageRules(cleanup);
    const [a, b] = [await stage.start({ workers }), await stage.start({ workers })];
    await stage.up(a, b);
    await tryMistake(stage, a, workers);
    const clients = Array.from({ length: 10 }, newClient);
    for (const client of clients) expect(await askAll([a], client, share)).toBe(1);
    await eventually("it is taken back", () => a.trial.trial === null, heardMs);
    const [line] = a.logLines.filter(({ msg }) => String(msg).startsWith("reload on trial taken back"));
    expect(line).toMatchObject({ reason: "refused", judged: 10 * share, refused: 10 * (share - 1) });
    await eventually("the other has heard of it", () => lines(b, told).length > 0, heardMs);
    // And hears nothing more of it when it reads the log again.
    await logReadBy(b, a);
    expect(lines(b, told)).toMatchObject([{ level: "warn", reason: "refused", host: expect.any(String) }]);
    expect(lines(a, told)).toEqual([]);
    // One of each was admitted during the trial.
    for (const client of clients.slice(0, 3)) expect(await askAll([a, b], client, limit)).toBe(limit - 1);
  });
});
