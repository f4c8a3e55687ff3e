// Clients of several gateways: what they ask, what they get, and what that says about the limits.
import type { Cleanup } from "../support/cleanup.ts";
import { type Asked, ClientLine, monotonicMs } from "./client-line.ts";
import type { Visit } from "./recording-upstream.ts";
import { type Admission, idealAdmissions, mostAtOnce, percentile, worstWindow } from "./windows.ts";

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
  async greedy(untilMs: number, lines = 2, afterRefusalMs = 10): Promise<void> {
    const one = async (gateway: number): Promise<void> => {
      const line = this.#open(gateway);
      while (monotonicMs() < untilMs) {
        const { status } = await this.#ask(line);
        if (status !== 200) await pause(afterRefusalMs);
      }
    };
    const gateways = this.#ports().map((_, i) => i);
    await Promise.all(gateways.flatMap((gateway) => Array.from({ length: lines }, () => one(gateway))));
  }

  /** Asks at a constant rate, each time at a gateway of its choice. `choose`: a number below its argument. */
  async steady(untilMs: number, perSecond: number, choose: (count: number) => number): Promise<void> {
    const lines = this.#ports().map((_, i) => [this.#open(i)]);
    const pending = new Set<Promise<unknown>>();
    const startMs = monotonicMs() + choose(1000) / perSecond;
    for (let i = 0; ; i += 1) {
      const dueMs = startMs + (i * 1000) / perSecond;
      if (dueMs >= untilMs) break;
      const earlyMs = dueMs - monotonicMs();
      if (earlyMs > 0) await pause(earlyMs);
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
  /** Admissions that were certainly in one window. */
  readonly worst: number;
  /** The longest time from sending a request to its arrival, which is how inexact `worst` can be; and p99 of it. */
  readonly delayMs: number;
  readonly p99DelayMs: number;
}

/** Which of the client's requests arrived at the upstream, whatever came back. */
export function admissionsOf(client: Client, visits: ReadonlyMap<number, Visit>): Admission[] {
  return client.asked.flatMap(({ number, sentMs }) => {
    const visit = visits.get(number);
    return visit === undefined ? [] : [{ fromMs: sentMs, untilMs: visit.arrivedMs }];
  });
}

export function outcomeOf(
  client: Client,
  visits: ReadonlyMap<number, Visit>,
  { limit, windowMs }: { readonly limit: number; readonly windowMs: number },
): Outcome {
  const admissions = admissionsOf(client, visits);
  const delays = admissions.map(({ fromMs, untilMs }) => untilMs - fromMs);
  const attempts = client.asked.map(({ sentMs }) => sentMs);
  return {
    admitted: admissions.length,
    ideal: idealAdmissions(attempts, limit, windowMs),
    worst: worstWindow(admissions, windowMs),
    delayMs: Math.max(0, ...delays),
    p99DelayMs: percentile(delays, 0.99),
  };
}

/** The most requests of the client that the upstream had at the same instant. */
export function mostAtUpstream(client: Client, visits: ReadonlyMap<number, Visit>): number {
  const spans = client.asked.flatMap(({ number }) => {
    const visit = visits.get(number);
    return visit === undefined ? [] : [{ fromMs: visit.arrivedMs, untilMs: visit.leftMs }];
  });
  return mostAtOnce(spans);
}

export interface Answers {
  /** By status; 0: the connection ended without an answer. */
  readonly statuses: Readonly<Record<number, number>>;
  /** How many lacked a rate-limit header. */
  readonly incomplete: number;
  /** From sending to the answer, of what was admitted. */
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly longestMs: number;
}

export function answersOf(clients: readonly Client[]): Answers {
  const asked = clients.flatMap((client) => client.asked);
  const statuses: Record<number, number> = {};
  for (const { status } of asked) statuses[status] = (statuses[status] ?? 0) + 1;
  const times = asked.filter(({ status }) => status === 200).map((one) => one.answeredMs - one.sentMs);
  return {
    statuses,
    incomplete: asked.filter(({ missing }) => missing.length > 0).length,
    p50Ms: percentile(times, 0.5),
    p99Ms: percentile(times, 0.99),
    longestMs: Math.max(0, ...asked.filter(({ status }) => status !== 0).map((one) => one.answeredMs - one.sentMs)),
  };
}
