// Clients that keep four gateways busy while something fails: what they got before it, and from then on.
import { monotonicMs } from "./client-line.ts";
import { type Fleet, limits, windowMs } from "./fleet.ts";
import { type SharedStage, total } from "./stage.ts";
import { type Answers, answersOf, type Client, type Outcome, outcomeOf } from "./traffic.ts";

export interface LoadResult {
  /** Greedy clients, of limits that are asked one by one and leased ahead. */
  readonly small: Outcome;
  readonly large: Outcome;
  /** Of the clients just above their limit, the one with the worst window. */
  readonly edge: Outcome;
  readonly before: Answers;
  readonly after: Answers;
  /** Requests that gateways decided without the store, those of the gateways that are there at the end. */
  readonly alone: number;
}

export type LoadedStage = Pick<SharedStage, "client" | "upstream"> & { readonly fleet: Pick<Fleet, "gateways"> };

/** `strike` is called when the first limits have been used up; the load goes on for two windows at least. */
export async function underLoad(stage: LoadedStage, strike: () => Promise<unknown>): Promise<LoadResult> {
  const small = stage.client("/v1/small");
  const large = stage.client("/v1/large");
  const edge = Array.from({ length: 4 }, () => stage.client("/v1/small"));
  const alone = () => total(stage.fleet.gateways, 'headgate_store_alone_total{mode="local"}');
  const aloneBefore = await alone();
  const startMs = monotonicMs();
  let isOver = false;
  const goesOn = () => !isOver;
  const perSecond = (1_050 * limits.small) / windowMs;
  const clients = Promise.all([
    small.greedy(goesOn),
    large.greedy(goesOn, 1),
    ...edge.map((client) => client.steady(goesOn, perSecond, (count) => Math.floor(Math.random() * count))),
  ]);
  await until(startMs + windowMs / 2);
  const struckMs = monotonicMs();
  await strike();
  await until(Math.max(startMs + 2.5 * windowMs, monotonicMs() + windowMs));
  isOver = true;
  await clients;
  const visits = await stage.upstream.visits();
  const outcome = (client: Client, limit: number): Outcome => outcomeOf(client, visits, { limit, windowMs });
  const edges = edge.map((client) => outcome(client, limits.small)).sort((a, b) => b.worst - a.worst);
  const all = [small, large, ...edge].flatMap(({ asked }) => asked);
  return {
    small: outcome(small, limits.small),
    large: outcome(large, limits.large),
    edge: edges[0] as Outcome,
    before: answersOf(all.filter(({ answeredMs }) => answeredMs < struckMs)),
    after: answersOf(all.filter(({ answeredMs }) => answeredMs >= struckMs)),
    alone: (await alone()) - aloneBefore,
  };
}

async function until(atMs: number): Promise<void> {
  const leftMs = atMs - monotonicMs();
  if (leftMs > 0) await new Promise((resolve) => setTimeout(resolve, leftMs));
}
