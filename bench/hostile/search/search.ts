// Searches for inputs that cost much CPU time: mutates those that cost more than all others of their size and outcome,
// as PerfFuzz does with the counts of branches. A record counts only if it repeats: garbage collection or another
// process can add to one measurement, but hardly to the smallest of several.
import { Random } from "../../../test/conformance/fuzz/random.ts";
import type { InputClass } from "./classes.ts";
import { type Effort, glance, hold, measure, type Sending, type Spent, wireBytes } from "./conversation.ts";
import { type Input, maxInputBytes, render } from "./input.ts";
import { mutate } from "./mutate.ts";
import type { Stage } from "./stage.ts";

export interface Finding {
  readonly input: Input;
  readonly bytes: number;
  readonly cpuUs: number;
  readonly requests: number;
  readonly outcome: string;
  /** CPU divided by that of as many ordinary requests with as many bytes. */
  readonly timesOrdinary: number;
  /** CPU divided by that of one ordinary request with as many bytes. */
  readonly timesOneOrdinary: number;
}

export function usPerRequest({ cpuUs, requests }: Finding): number {
  return cpuUs / requests;
}

/** What is maximized: a connection can also send many cheap requests. */
const objectives = { request: usPerRequest, input: ({ cpuUs }: Finding) => cpuUs } as const;
type Objective = keyof typeof objectives;
const objectiveNames = Object.keys(objectives) as Objective[];

/** A new record must exceed the last one by this factor; otherwise noise would make records all the time. */
const recordFactor = 1.08;
/** A quick measurement may be too high by this much. Inputs that do not exceed the record by more are not repeated. */
const glanceFactor = 1.2;
/** Runs that confirm a record. */
const confirmations = 3;
const usual: Effort = { connections: 3, calmMs: 2 };
const many: Effort = { connections: 10, calmMs: 2 };
const thorough: Effort = { connections: 4, calmMs: 8 };
const ordinaryBytes = [120, 16_000] as const;

export class ClassSearch {
  readonly inputClass: InputClass;
  readonly #stage: Stage;
  readonly #random: Random;
  /** The most expensive input of each size and outcome, by each objective. */
  readonly #dearest = new Map<string, Finding>();
  #ordinaryUs: readonly [number, number] = [0, 0];
  /** What a quick measurement costs besides its input. */
  #openingUs = 0;
  inputs = 0;

  constructor(inputClass: InputClass, stage: Stage, seed: number) {
    this.inputClass = inputClass;
    this.#stage = stage;
    this.#random = new Random(seed);
  }

  /** Warms the gateway up, measures ordinary requests, then the seeds. */
  async begin(seeds: readonly Input[] = []): Promise<void> {
    const { ordinary } = this.inputClass;
    const [small, large] = ordinaryBytes.map((bytes) => ({ parts: ordinary(bytes), pieceBytes: 0 }));
    if (small === undefined || large === undefined) return;
    for (let i = 0; i < 30; i += 1) await this.#run(i % 2 === 0 ? small : large, many);
    this.#ordinaryUs = [await this.#leastUs(small), await this.#leastUs(large)];
    const glances: number[] = [];
    for (let i = 0; i < 15; i += 1) glances.push((await this.#run(small, null)).cpuUs);
    this.#openingUs = (glances.sort((a, b) => a - b)[7] ?? 0) - this.#ordinaryUs[0];
    const own: Input[] = this.inputClass.seeds.map((parts) => ({ parts, pieceBytes: 0 }));
    for (const input of [...own, ...seeds]) await this.#try(input);
  }

  async runUntil(endMs: number): Promise<void> {
    while (performance.now() < endMs) {
      const { input } = this.#parent();
      await this.#try(mutate(this.#random, input, this.inputClass.dictionary, this.#parent().input));
    }
  }

  /** Ordinary requests of the least and the most bytes, in microseconds of CPU. */
  get ordinaryUs(): readonly [number, number] {
    return this.#ordinaryUs;
  }

  /** By the CPU for a request or for the whole input, the most expensive first. */
  findings(objective: Objective = "request"): readonly Finding[] {
    const us = objectives[objective];
    return [...new Set(this.#dearest.values())].sort((a, b) => us(b) - us(a));
  }

  /** Measures a finding again, as the least of `times` runs of several connections each. */
  async verify(finding: Finding, times = 5): Promise<Finding> {
    const runs: Spent[] = [];
    for (let i = 0; i < times; i += 1) runs.push(await this.#run(finding.input, thorough));
    return this.#finding(finding.input, least(runs));
  }

  async #try(input: Input): Promise<void> {
    this.inputs += 1;
    const { cpuUs, ...rest } = await this.#run(input, null);
    const glanced = this.#finding(input, { ...rest, cpuUs: (cpuUs - this.#openingUs) / glanceFactor });
    if (this.#recordsOf(glanced).length === 0) return;
    // The outcome may differ where the first look was too short.
    const runs: Spent[] = [];
    for (let i = 0; i <= confirmations; i += 1) {
      runs.push(await this.#run(input, usual));
      if (this.#recordsOf(this.#finding(input, least(runs))).length === 0) return;
    }
    const finding = this.#finding(input, least(runs));
    for (const key of this.#recordsOf(finding)) this.#dearest.set(key, finding);
  }

  /** The keys of the records that a finding exceeds. */
  #recordsOf(finding: Finding): string[] {
    const { bytes, outcome } = finding;
    const size = Math.ceil(Math.log2(Math.max(64, bytes)));
    return objectiveNames.flatMap((objective) => {
      const key = `${objective} ${size} ${outcome}`;
      const record = this.#dearest.get(key);
      const us = objectives[objective];
      return record === undefined || us(finding) > recordFactor * us(record) ? [key] : [];
    });
  }

  /** Chooses one of the sizes and outcomes, more often an expensive one. */
  #parent(): Finding {
    const all = this.findings(this.#random.pick(["request", "request", "input"]));
    const place = Math.min(this.#random.int(all.length), this.#random.int(all.length));
    return all[place] as Finding;
  }

  #finding(input: Input, { cpuUs, requests, outcome }: Spent): Finding {
    const bytes = wireBytes({ ...render(input, maxInputBytes), pieceBytes: input.pieceBytes });
    const ordinaryUs = requests * this.#ordinaryUsOf(bytes / requests);
    const timesOneOrdinary = cpuUs / this.#ordinaryUsOf(bytes);
    return { input, bytes, cpuUs, requests, outcome, timesOrdinary: cpuUs / ordinaryUs, timesOneOrdinary };
  }

  #ordinaryUsOf(bytes: number): number {
    const [small, large] = this.#ordinaryUs;
    const share = (bytes - ordinaryBytes[0]) / (ordinaryBytes[1] - ordinaryBytes[0]);
    return small + Math.max(0, share) * Math.max(0, large - small);
  }

  async #leastUs(input: Input): Promise<number> {
    const runs: Spent[] = [];
    for (let i = 0; i < 10; i += 1) runs.push(await this.#run(input, many));
    return least(runs).cpuUs;
  }

  /** Null: a quick measurement (`glance`). */
  #run(input: Input, effort: Effort | null): Promise<Spent> {
    return run(this.#stage, this.inputClass, input, effort);
  }
}

/** Null: a quick measurement (`glance`). */
export async function run(stage: Stage, { profile, carrier, asks }: InputClass, input: Input, effort: Effort | null) {
  const { gateway, answerWith } = await stage.running(profile);
  const sending = sendingOf(input);
  if (asks !== undefined) answerWith(sending.bytes, sending.pieceBytes);
  const sent = asks === undefined ? sending : asking(asks);
  return effort === null ? glance(gateway, carrier, sent) : measure(gateway, carrier, sent, effort);
}

/** Memory that the gateway keeps for each connection while it stays open. Its turns have to be watched. */
export async function keptBytes(stage: Stage, { profile, carrier, asks }: InputClass, input: Input) {
  const { gateway, answerWith } = await stage.running(profile);
  const sendings = Array.from({ length: heldConnections }, () => sendingOf(input));
  if (asks !== undefined) answerWith(sendingOf(input).bytes, input.pieceBytes);
  const before = await gateway.usedBytes();
  const release = await hold(gateway, carrier, asks === undefined ? sendings : sendings.map(() => asking(asks)));
  await gateway.atRest(thorough.calmMs);
  const kept = (await gateway.usedBytes()) - before;
  release();
  await gateway.atRest(thorough.calmMs);
  return Math.max(0, kept) / heldConnections;
}

/** Enough to be told from the noise of the heap. */
const heldConnections = 50;

function sendingOf({ parts, pieceBytes }: Input): Sending {
  const { bytes, streams } = render({ parts }, maxInputBytes);
  return { bytes: withAnotherClient(bytes), streams, pieceBytes };
}

let clients = 0;

/** Puts another client in place of the one that a check is about, in as many bytes. */
function withAnotherClient(bytes: Buffer): Buffer {
  for (let at = bytes.indexOf(namedClient); at !== -1; at = bytes.indexOf(namedClient, at + 1)) {
    clients += 1;
    bytes.write(`10.${100 + ((clients >> 14) % 128)}.${100 + ((clients >> 7) % 128)}.${100 + (clients % 128)}`, at);
  }
  return bytes;
}

const namedClient = "10.100.100.100";

const asking = (bytes: Buffer): Sending => ({ bytes, streams: 1, pieceBytes: 0 });

function least(runs: readonly Spent[]): Spent {
  return runs.reduce((least, run) => (run.cpuUs < least.cpuUs ? run : least));
}
