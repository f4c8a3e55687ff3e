// Clients of several gateways: what they ask, what they get, and what that says about the limits.
import type { Cleanup } from "../support/cleanup.ts";
import { type Asked, ClientLine, monotonicMs } from "./client-line.ts";
import type { Visit } from "./recording-upstream.ts";
import { type Admission, idealAdmissions, mostAtOnce, percentile, worstWindow } from "./windows.ts";

/** For clients that go on until an instant. */
export const before = (atMs: number) => (): boolean => monotonicMs() < atMs;

/** The ports of the gateways that are there now. */
export type Ports = () => readonly number[];

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

/** The requests of one client (by its address) under one policy (by its path): what one counter is about. */
export class Client {
  readonly asked: Asked[] = [];
  readonly #ports: Ports;
  readonly #address: string;
  readonly #path: string;
  readonly #query: string;
  readonly #lines: ClientLine[] = [];

  constructor(cleanup: Cleanup, ports: Ports, address: string, path: string, query = "") {
    this.#ports = ports;
    this.#address = address;
    this.#path = path;
    this.#query = query;
    cleanup(() => this.#close());
  }

  /** Asks as fast as it is admitted, over `lines` connections to each gateway, and again soon after a refusal. */
  async greedy(goesOn: () => boolean, lines = 2, afterRefusalMs = 25): Promise<void> {
    const one = async (gateway: number): Promise<void> => {
      const line = this.#open(gateway);
      while (goesOn()) {
        const { status } = await this.#ask(line);
        if (status !== 200) await pause(afterRefusalMs);
      }
    };
    const gateways = this.#ports().map((_, i) => i);
    await Promise.all(gateways.flatMap((gateway) => Array.from({ length: lines }, () => one(gateway))));
  }

  /** Asks at a constant rate, each time at a gateway of its choice. `choose`: a number below its argument. */
  async steady(goesOn: () => boolean, perSecond: number, choose: (count: number) => number): Promise<void> {
    const lines = this.#ports().map((_, i) => [this.#open(i)]);
    const pending = new Set<Promise<unknown>>();
    const startMs = monotonicMs() + choose(1000) / perSecond;
    for (let i = 0; ; i += 1) {
      const dueMs = startMs + (i * 1000) / perSecond;
      const earlyMs = dueMs - monotonicMs();
      if (earlyMs > 0) await pause(earlyMs);
      if (!goesOn()) break;
      const gateway = choose(lines.length);
      const idle = lines[gateway] as ClientLine[];
      const line = idle.pop() ?? this.#open(gateway);
      const asked = this.#ask(line).then(() => idle.push(line));
      pending.add(asked);
      void asked.then(() => pending.delete(asked));
    }
    await Promise.all(pending);
  }

  /** Asks `count` times at once, spread over all gateways. */
  async burst(count: number): Promise<Asked[]> {
    const gateways = this.#ports().length;
    return Promise.all(Array.from({ length: count }, (_, i) => this.#ask(this.#open(i % gateways))));
  }

  /** Asks once, over a connection of its own. */
  async once(gateway: number): Promise<Asked> {
    const line = this.#open(gateway);
    const asked = await this.#ask(line);
    line.close();
    return asked;
  }

  #open(gateway: number): ClientLine {
    const line = new ClientLine(() => this.#ports()[gateway] ?? 0, this.#address);
    this.#lines.push(line);
    return line;
  }

  async #ask(line: ClientLine): Promise<Asked> {
    const asked = await line.ask(this.#path, this.#query);
    this.asked.push(asked);
    return asked;
  }

  #close(): void {
    for (const line of this.#lines) line.close();
  }
}

export interface Outcome {
  readonly admitted: number;
  readonly ideal: number;
  /** Requests whose connection ended without an answer. */
  readonly lost: number;
  /** Admissions that were certainly in one window. */
  readonly worst: number;
  /** The longest time from sending a request to its arrival, which is how inexact `worst` can be; and p99 of it. */
  readonly delayMs: number;
  readonly p99DelayMs: number;
}

type Visits = ReadonlyMap<number, Visit>;

/** Which of the requests arrived at the upstream, whatever came back. */
export function admissionsOf(asked: readonly Asked[], visits: Visits): Admission[] {
  return asked.flatMap(({ number, sentMs }) => {
    const visit = visits.get(number);
    return visit === undefined ? [] : [{ fromMs: sentMs, untilMs: visit.arrivedMs }];
  });
}

/**
 * Of one counter: that of a client, or the one that several clients have together. `countsMs`: for how long a request
 * counts in the ideal, if that is longer than the window.
 */
export function outcomeOf(
  clients: Client | readonly Client[],
  visits: Visits,
  {
    limit,
    windowMs,
    countsMs = windowMs,
  }: { readonly limit: number; readonly windowMs: number; readonly countsMs?: number },
): Outcome {
  const asked = [clients].flat().flatMap((client) => client.asked);
  const admissions = admissionsOf(asked, visits);
  const delays = admissions.map(({ fromMs, untilMs }) => untilMs - fromMs);
  // A request is decided at some instant between the two, and what a slow machine delays is no loss of quota.
  const ideals = [asked.map(({ sentMs }) => sentMs), asked.map(({ answeredMs }) => answeredMs)];
  return {
    admitted: admissions.length,
    ideal: Math.min(...ideals.map((attempts) => idealAdmissions(attempts, limit, countsMs))),
    lost: asked.filter(({ status }) => status === 0).length,
    worst: worstWindow(admissions, windowMs),
    delayMs: Math.max(0, ...delays),
    p99DelayMs: percentile(delays, 0.99),
  };
}

/** Of a quota of the calendar: what was certainly admitted in one period, and what an exact one admits over all. */
export function worstPeriod(
  client: Client,
  visits: Visits,
  { limit, periodMs }: { readonly limit: number; readonly periodMs: number },
): { readonly most: number; readonly admitted: number; readonly ideal: number } {
  const aheadMs = Date.now() - monotonicMs();
  const periodOf = (atMs: number): number => Math.floor((atMs + aheadMs) / periodMs);
  const admissions = admissionsOf(client.asked, visits);
  const certain = admissions.filter(({ fromMs, untilMs }) => periodOf(fromMs) === periodOf(untilMs));
  const counts = [...Map.groupBy(certain, ({ fromMs }) => periodOf(fromMs)).values()].map((all) => all.length);
  const attempts = [...Map.groupBy(client.asked, ({ sentMs }) => periodOf(sentMs)).values()];
  const ideal = attempts.reduce((sum, all) => sum + Math.min(limit, all.length), 0);
  return { most: Math.max(0, ...counts), admitted: admissions.length, ideal };
}

/** The most requests of the client that the upstream had at the same instant. */
export function mostAtUpstream(client: Client, visits: Visits): number {
  const spans = client.asked.flatMap(({ number }) => {
    const visit = visits.get(number);
    return visit === undefined ? [] : [{ fromMs: visit.arrivedMs, untilMs: visit.leftMs }];
  });
  return mostAtOnce(spans);
}

export interface Answers {
  /** By status; 0: the connection ended without an answer. */
  readonly statuses: Readonly<Record<number, number>>;
  /** The ports of the gateways whose connections ended without an answer. */
  readonly lostAt: ReadonlySet<number>;
  /** How many lacked a rate-limit header. */
  readonly incomplete: number;
  /** From sending to the answer, of what was admitted. */
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly longestMs: number;
}

export function answersOf(asked: readonly Asked[]): Answers {
  const statuses: Record<number, number> = {};
  for (const { status } of asked) statuses[status] = (statuses[status] ?? 0) + 1;
  const times = asked.filter(({ status }) => status === 200).map((one) => one.answeredMs - one.sentMs);
  return {
    statuses,
    lostAt: new Set(asked.filter(({ status }) => status === 0).map(({ port }) => port)),
    incomplete: asked.filter(({ missing }) => missing.length > 0).length,
    p50Ms: percentile(times, 0.5),
    p99Ms: percentile(times, 0.99),
    longestMs: Math.max(0, ...asked.filter(({ status }) => status !== 0).map((one) => one.answeredMs - one.sentMs)),
  };
}
