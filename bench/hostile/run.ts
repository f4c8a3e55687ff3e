// Runs one attack against a running gateway, and counts what the attacker spends.
import { setTimeout as sleep } from "node:timers/promises";
import type { Attack, Counters, Ports } from "./attack.ts";
import type { AttackOrder } from "./attacker-process.ts";
import { type Child, startChild, withoutCollections } from "./children.ts";
import { busyUs } from "./gateway-process.ts";
import type { UpstreamOrder, UpstreamReply } from "./upstream-process.ts";

export interface Bench {
  readonly others: Child;
  readonly upstream: Child;
  readonly seconds: number;
  /** Of attacker, upstream and other clients. */
  readonly core: number;
  /** Of the attacker, so that it does not delay the other clients. */
  readonly nice: number;
}

/** What is attacked: the gateway, or what is measured beside it. */
export interface Target {
  readonly ports: Ports;
  readonly child: { readonly pid: number };
}

/** Longer than any attack needs on a busy machine. */
const startSeconds = 20;

/** Sends the attack, and waits until the gateway has processed everything that it received. */
export async function run(bench: Bench, gateway: Target, attack: Attack): Promise<Counters> {
  const counters = await runAll(bench, gateway, [attack]);
  const { bytes } = await bench.upstream.ask<UpstreamReply>({ kind: "read" } satisfies UpstreamOrder);
  return attack.carrier === "upstream" ? { ...counters, bytes } : { ...counters, answered: bytes };
}

/** Runs several attacks at once, each with a part of its rate. */
export async function runAll(
  { upstream, seconds, core, nice }: Bench,
  gateway: Target,
  attacks: readonly Attack[],
  share = 1,
): Promise<Counters> {
  const names = attacks.map(({ name }) => name);
  await upstream.ask<UpstreamReply>({ kind: "begin", names } satisfies UpstreamOrder);
  const attacker = startChild([...withoutCollections, `${import.meta.dirname}/attacker-process.ts`], { core, nice });
  try {
    const timeout = new AbortController();
    const late = sleep((seconds + startSeconds) * 1000, null, { signal: timeout.signal }).catch(() => null);
    const order: AttackOrder = { names, ports: gateway.ports, seconds, share };
    const counters = await Promise.race([attacker.ask<Counters>(order), late]);
    timeout.abort();
    if (counters === null) throw new Error(`${names.join(", ")} did not stop by itself`);
    await upstream.ask<UpstreamReply>({ kind: "end", names } satisfies UpstreamOrder);
    await untilQuiet(gateway.child.pid);
    return counters;
  } finally {
    await attacker.stop();
  }
}

/** Waits until the gateway is busy for less than this part of the time. */
const quietShare = 0.25;
const quietCheckMs = 100;
const quietDeadlineMs = 5_000;

/** Waits until the gateway has done what it got, at most some seconds. */
export async function untilQuiet(pid: number): Promise<void> {
  const deadlineMs = performance.now() + quietDeadlineMs;
  for (let before = busyUs(pid), isBusy = true; isBusy && performance.now() < deadlineMs; ) {
    const sinceMs = performance.now();
    await sleep(quietCheckMs);
    const now = busyUs(pid);
    isBusy = (now - before) / 1000 > quietShare * (performance.now() - sinceMs);
    before = now;
  }
}
