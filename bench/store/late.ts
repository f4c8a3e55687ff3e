// `node bench/store/late.ts`: how many decisions are made without the store's answer, because it was late: three gateways
// and a Redis behind a proxy that delays, on a machine that is idle, whose gateways collect garbage, or whose processors
// others use. Prints Markdown.
import { parseArgs } from "node:util";
import { startFleet } from "../../test/shared-store/fleet.ts";
import { startRecordingUpstream } from "../../test/shared-store/recording-upstream.ts";
import { clientsOf, shared, total } from "../../test/shared-store/stage.ts";
import { startStoreProxy } from "../../test/shared-store/store-proxy.ts";
import { cleanupTo } from "../../test/support/closing.ts";
import { startRedis } from "../../test/support/redis-servers.ts";
import { startNeighbours } from "./neighbours.ts";

const { values } = parseArgs({
  options: {
    decisions: { type: "string", default: "100000" },
    waits: { type: "string", default: "10,50" },
    roundTrips: { type: "string", default: "0,1,5,20" },
    conditions: { type: "string", default: "idle,collections,neighbours" },
  },
});
const decisions = Number(values.decisions);
const gateways = 3;
/** Each is asked for by itself, and none is refused. */
const policy = { name: "asked", limit: 999, window: "3s" };
const [clients, perSecond] = [60, 10];

const collecting = new URL("./collects-garbage.ts", import.meta.url).href;

type Undo = () => unknown;

async function measure(condition: string, waitMs: number, roundTripMs: number): Promise<string> {
  const undo: Undo[] = [];
  const cleanup = cleanupTo((run) => void undo.unshift(run));
  try {
    const upstream = await startRecordingUpstream(cleanup);
    const redis = await startRedis();
    cleanup(() => redis.stop());
    const proxy = await startStoreProxy(cleanup, redis.port);
    const url = `counters.redis.url=redis://127.0.0.1:${proxy.port}`;
    const settings = [
      ...["counters.store=redis", url, `counters.redis.wait=${waitMs}ms`],
      `policies=${JSON.stringify([policy])}`,
    ];
    const env: Record<string, string> = condition === "collections" ? { NODE_OPTIONS: `--import ${collecting}` } : {};
    const fleet = await startFleet(cleanup, upstream.url, gateways, settings, env);
    await proxy.fault({ delayMs: roundTripMs / 2 });
    await shared(fleet.gateways, gateways);
    if (condition === "neighbours") cleanup(startNeighbours());
    const client = clientsOf(cleanup, fleet);
    const load = async (count: number): Promise<void> => {
      let left = count;
      const one = () =>
        client("/v1/asked").steady(
          () => left-- > 0,
          perSecond,
          (of) => Math.floor(Math.random() * of),
        );
      await Promise.all(Array.from({ length: clients }, one));
    };
    await load(3_000);
    const before = await total(fleet.gateways, "headgate_store_late_total");
    await load(decisions);
    const late = (await total(fleet.gateways, "headgate_store_late_total")) - before;
    return String(late);
  } finally {
    for (const run of undo) await run();
  }
}

const roundTrips = values.roundTrips.split(",").map(Number);
const print = (line: string): void => void process.stdout.write(`${line}\n`);
print(`Of ${decisions} decisions each, by the round trip that the proxy adds:\n`);
print(`| machine | wait | ${roundTrips.map((each) => `${each} ms`).join(" | ")} |`);
print(`|---|---|${roundTrips.map(() => "---|").join("")}`);
for (const condition of values.conditions.split(",")) {
  for (const waitMs of values.waits.split(",").map(Number)) {
    const cells: string[] = [];
    for (const roundTripMs of roundTrips) cells.push(await measure(condition, waitMs, roundTripMs));
    print(`| ${condition} | ${waitMs} ms | ${cells.join(" | ")} |`);
  }
}
