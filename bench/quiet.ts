// Whether the machine is quiet: what others than the bench use of the processors, and what the host takes from them. A
// busy machine makes figures of different rounds incomparable, so it is said beside the results.
import { readFileSync } from "node:fs";
import { loadavg } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";
import { cpuTimeUs, ticksPerSecond } from "./processes.ts";

interface Reading {
  readonly atMs: number;
  readonly busyMs: number;
  readonly stolenMs: number;
  /** Of the bench and everything that it started, ended or not. */
  readonly ownMs: number;
}

/** Shares of one core. */
const mostByOthers = 0.1;
const mostStolen = 0.02;
const highestLoad = 0.5;

export class MachineWatch {
  readonly #say: (text: string) => void;
  #last = read();
  #looks = 0;
  #busyLooks = 0;
  #byOthers = 0;
  #stolen = 0;
  #loadAtStart = 0;

  constructor(say: (text: string) => void) {
    this.#say = say;
  }

  /** Before anything is measured. */
  async begin(): Promise<void> {
    this.#loadAtStart = loadavg()[0] ?? 0;
    if (this.#loadAtStart > highestLoad) this.#say(`not quiet: the load average is ${this.#loadAtStart.toFixed(2)}`);
    this.forget();
    await sleep(2000);
    this.look("before the run");
  }

  /** The next look begins here. */
  forget(): void {
    this.#last = read();
  }

  /** At the end of each round. */
  look(when: string): void {
    const [before, now] = [this.#last, read()];
    this.#last = now;
    const elapsedMs = now.atMs - before.atMs;
    const byOthers = othersShare(before, now);
    const stolen = (now.stolenMs - before.stolenMs) / elapsedMs;
    this.#looks += 1;
    this.#byOthers = Math.max(this.#byOthers, byOthers);
    this.#stolen = Math.max(this.#stolen, stolen);
    if (byOthers <= mostByOthers && stolen <= mostStolen) return;
    this.#busyLooks += 1;
    this.#say(`not quiet ${when}: others use ${percent(byOthers)} of a core, ${percent(stolen)} is stolen`);
  }

  summary(): string {
    const load = `load average ${this.#loadAtStart.toFixed(2)} at the start`;
    const most = `at most ${percent(this.#byOthers)} of a core used by others and ${percent(this.#stolen)} stolen`;
    if (this.#busyLooks === 0 && this.#loadAtStart <= highestLoad) return `The machine was quiet: ${load}, ${most}.`;
    return `**The machine was not quiet** in ${this.#busyLooks} of ${this.#looks} rounds: ${load}, ${most}.`;
  }
}

/** Begins to watch. Returns what says which share of one core others have used since then. */
export function watchOthers(): () => number {
  const before = read();
  return () => othersShare(before, read());
}

function othersShare(before: Reading, now: Reading): number {
  return (now.busyMs - before.busyMs - (now.ownMs - before.ownMs)) / (now.atMs - before.atMs);
}

function read(): Reading {
  const line = readFileSync("/proc/stat", "utf8").split("\n", 1)[0] ?? "";
  const ticks = line.trim().split(/\s+/).slice(1, 9).map(Number);
  const [user = 0, nice = 0, system = 0, , , irq = 0, softIrq = 0, steal = 0] = ticks;
  const msOf = (count: number): number => (count * 1000) / ticksPerSecond;
  return {
    atMs: performance.now(),
    busyMs: msOf(user + nice + system + irq + softIrq),
    stolenMs: msOf(steal),
    ownMs: cpuTimeUs(process.pid) / 1000,
  };
}

function percent(share: number): string {
  return `${(Math.max(share, 0) * 100).toFixed(0)} %`;
}
