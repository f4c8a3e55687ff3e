// Processes that are measured: started on one core, their CPU time and memory read from the kernel for the whole tree,
// ended by their own id.
import { type ChildProcess, execFileSync, spawn, spawnSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { connect, createServer } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";

export interface Running {
  readonly pid: number;
  stop(): Promise<void>;
}

/** Resolves when the port accepts connections; rejects with what the process said if it ends first. */
export async function start(
  command: readonly string[],
  { core, port, cwd = "." }: { core: number | string; port: number; cwd?: string },
): Promise<Running> {
  const child = spawn("taskset", ["-c", String(core), ...command], { stdio: ["ignore", "ignore", "pipe"], cwd });
  let said = "";
  child.stderr?.on("data", (bytes: Buffer) => {
    said = (said + bytes).slice(-2000);
  });
  while (!(await accepts(port))) {
    if (child.exitCode !== null || child.pid === undefined) throw new Error(`${command.join(" ")} ended: ${said}`);
    await sleep(5);
  }
  return { pid: child.pid ?? 0, stop: () => stop(child) };
}

async function stop(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = new Promise<void>((resolve) => child.once("exit", () => resolve()));
  const tree = treeOf(child.pid ?? 0);
  child.kill("SIGTERM");
  const timer = setTimeout(() => {
    for (const pid of tree) spawnSync("kill", ["-KILL", String(pid)]);
  }, 3000);
  await ended;
  clearTimeout(timer);
}

export function accepts(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1");
    socket.once("connect", () => {
      socket.destroy();
      resolve(true);
    });
    socket.once("error", () => resolve(false));
  });
}

export function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once("error", reject);
    server.listen(0, "127.0.0.1", () => {
      const address = server.address();
      server.close(() => resolve(typeof address === "object" && address !== null ? address.port : 0));
    });
  });
}

/** CPU time that the process and all it started have used, in microseconds. */
export interface CpuTime {
  readonly userUs: number;
  readonly systemUs: number;
}

/** The kernel counts in steps of 10 ms, and estimates how the sum is divided from what each tick interrupts. */
export function cpuTime(pid: number): CpuTime {
  const stats = treeOf(pid).map(statOf);
  // utime, stime and those of children that have ended.
  const sum = (...indices: number[]): number =>
    stats.reduce((all, fields) => indices.reduce((part, i) => part + Number(fields?.[i] ?? 0), all), 0);
  const usPerTick = 1_000_000 / ticksPerSecond;
  return { userUs: sum(11, 13) * usPerTick, systemUs: sum(12, 14) * usPerTick };
}

export function cpuTimeUs(pid: number): number {
  const { userUs, systemUs } = cpuTime(pid);
  return userUs + systemUs;
}

/** Resident memory of the process and all it started, in bytes; pages that they share are counted once for each. */
export function residentBytes(pid: number): number {
  return treeOf(pid).reduce((sum, each) => {
    const kibibytes = /^VmRSS:\s+(\d+) kB$/m.exec(readText(`/proc/${each}/status`))?.[1];
    return sum + Number(kibibytes ?? 0) * 1024;
  }, 0);
}

export function installed(command: string): boolean {
  return spawnSync("sh", ["-c", `command -v ${command}`]).status === 0;
}

/** The first line that says a version, on either output. */
export function versionOf(command: string, ...args: string[]): string {
  const { stdout, stderr } = spawnSync(command, args, { encoding: "utf8" });
  return /\d+\.\d+(\.\d+)?/.exec(stdout + stderr)?.[0] ?? "of unknown version";
}

export const ticksPerSecond = Number(execFileSync("getconf", ["CLK_TCK"], { encoding: "utf8" }));

function treeOf(root: number): number[] {
  const parents = readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .map((name) => ({ pid: Number(name), parent: Number(statOf(Number(name))?.[1] ?? -1) }));
  const tree = [root];
  for (const pid of tree) tree.push(...parents.filter(({ parent }) => parent === pid).map((each) => each.pid));
  return tree;
}

/** The fields behind the name, which may hold spaces and brackets. */
function statOf(pid: number): string[] | undefined {
  const text = readText(`/proc/${pid}/stat`);
  return text === "" ? undefined : text.slice(text.lastIndexOf(")") + 2).split(" ");
}

/** Empty if the process is gone. */
function readText(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}
