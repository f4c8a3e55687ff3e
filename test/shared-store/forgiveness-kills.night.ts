// A gateway is killed right beside a forgiveness that it was asked for: before it, at many instants during it, and after it.
// Either all other gateways know of it afterwards or none does, and in either case the client gets no more than its limit
// and what was waiting. Takes about 60 s.
import { setTimeout } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { call, writeToken } from "../admin/api-stage.ts";
import { useCleanup } from "../support/cleanup.ts";
import { eventually } from "../support/eventually.ts";
import type { TestGateway } from "../support/gateway.ts";
import type { GatewayProcess } from "../support/gateway-process.ts";
import { metric } from "../support/metrics.ts";
import { redisNeeded, skipRedis } from "../support/redis-servers.ts";
import { adminTokensFile } from "./admin-tokens-file.ts";
import { startFleet } from "./fleet.ts";
import { writeRow } from "./report.ts";
import { ask, askAll, heardMs, limit, logReadBy, newClient, policies, replicas, stageRules } from "./rules-stage.ts";

const cleanup = useCleanup();
/** After the forgiveness was asked for, in milliseconds. */
const delays = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 17, 20, 25, 30, 40];
const instants = ["before", ...delays, "after"] as const;

/** Asks one gateway for a client again and again. */
class Traffic {
  admitted = 0;
  readonly #ended: Promise<void>;
  #isOver = false;

  constructor(port: number, client: string) {
    this.#ended = this.#run({ traffic: { host: "127.0.0.1", port } }, client);
  }

  async stop(): Promise<number> {
    this.#isOver = true;
    await this.#ended;
    return this.admitted;
  }

  async #run(gateway: Pick<TestGateway, "traffic">, client: string): Promise<void> {
    while (!this.#isOver) {
      // A gateway that was killed answers nothing any more.
      const status = await ask(gateway, client).catch(() => 0);
      if (status === 200) this.admitted += 1;
      if (status === 0) return;
    }
  }
}

async function forgiveAndKill(gateway: GatewayProcess, client: string, instant: (typeof instants)[number]) {
  const kill = async (): Promise<void> => {
    gateway.signal("SIGKILL");
    await gateway.exited;
  };
  if (instant === "before") await kill();
  const answer = call(gateway.adminPort, "DELETE", `/api/clients/client:${client}`, { token: writeToken }).then(
    ({ status }) => status,
    () => 0,
  );
  if (typeof instant === "number") await setTimeout(instant);
  const status = typeof instant === "number" ? 0 : await answer;
  await kill();
  return status || answer;
}

const forgivenKeys = (gateway: TestGateway) => metric(gateway, 'headgate_forgiven_keys_total{policy="per-ip"}');

describe.skipIf(skipRedis)(`a gateway that is killed beside a forgiveness${redisNeeded}`, () => {
  test("leaves it to all others or to none, and nobody above the limit", { timeout: 300_000 }, async () => {
    const stage = await stageRules(cleanup);
    const { redis } = stage;
    const [a, b] = [await stage.start(), await stage.start()];
    await stage.up(a, b);
    const fleet = await startFleet(cleanup, stage.upstreamUrl, 0, [
      ...["counters.store=redis", `counters.redis.url=redis://127.0.0.1:${redis.port}`],
      ...["counters.redis.wait=1s", `counters.redis.replicas=${replicas}`],
      `policies=${JSON.stringify(policies.map(({ name }) => ({ name, limit, window: "1h" })))}`,
      `admin.tokensFile=${adminTokensFile(cleanup)}`,
    ]);
    const connections = (): number => redis.cli("CLIENT", "LIST").split("\n").length;
    const outcomes: { readonly instant: number | string; readonly isKnown: boolean; readonly admitted: number }[] = [];
    for (const instant of instants) {
      const without = connections();
      const killed = await fleet.start();
      // The first call of the API loads it.
      await call(killed.adminPort, "GET", "/api/status", { token: writeToken });
      await eventually(
        "it shares the store",
        async () => {
          const figures = await killed.figures();
          return (
            figures.get('headgate_store_state{state="up"}') === 1 &&
            figures.get('headgate_shared_rules_state{state="read"}') === 1
          );
        },
        15_000,
      );
      const client = newClient();
      const all = [a, b, { traffic: { host: "127.0.0.1", port: killed.port } }];
      expect(await askAll(all, client, limit)).toBe(limit);
      const before = [await forgivenKeys(a), await forgivenKeys(b)];
      const traffic = all.map(({ traffic: { port } }) => new Traffic(port, client));
      const status = await forgiveAndKill(killed, client, instant);
      await eventually("the store has read all that it has sent", () => connections() <= without);
      const isKnown = redis.cli("HEXISTS", "headgate:1:{rules}:entries", `f/client/${client}`) === "1";
      if (status === 200) expect(isKnown).toBe(true);
      const admitted = () => traffic.reduce((sum, each) => sum + each.admitted, 0);
      // A unit that was granted to the one that was killed is spent by nobody.
      if (isKnown) await eventually("the limit is used up", () => admitted() >= limit - 1, heardMs);
      await logReadBy(b, a);
      await logReadBy(a, b);
      await Promise.all(traffic.map((each) => each.stop()));
      const total = admitted() + (await askAll([a, b], client, limit));
      const forgotten = [(await forgivenKeys(a)) > (before[0] ?? 0), (await forgivenKeys(b)) > (before[1] ?? 0)];
      expect(forgotten, `killed ${instant}`).toEqual([isKnown, isKnown]);
      expect(total, `killed ${instant}`).toBeGreaterThanOrEqual(isKnown ? limit - 1 : 0);
      // Each gateway had one request that was waiting.
      expect(total, `killed ${instant}`).toBeLessThanOrEqual(isKnown ? limit + all.length : 0);
      outcomes.push({ instant, isKnown, admitted: total });
    }
    const [first, last] = [outcomes[0], outcomes.at(-1)];
    expect([first?.isKnown, last?.isKnown]).toEqual([false, true]);
    for (const { instant, isKnown, admitted } of outcomes)
      writeRow(["killed beside a forgiveness", instant, isKnown, admitted]);
  });
});
