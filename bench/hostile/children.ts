// Child processes that answer messages one at a time. All are ended by their own handle.
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";

export interface Child {
  readonly pid: number;
  readonly hasEnded: () => boolean;
  /** Rejects if the process ends first. */
  ask<Reply>(message: object): Promise<Reply>;
  stop(): Promise<void>;
}

export interface ChildOptions {
  readonly core: number;
  /** With 19, the process runs only when no other needs the core. */
  readonly nice?: number;
  readonly env?: NodeJS.ProcessEnv;
}

/**
 * Flags of the processes that surround the gateway. With 4,096 requests held, a garbage collection of the upstream or of the
 * attacker delays the other clients by up to 100 ms, which would look like a delay in the gateway: with so much memory there
 * is none.
 */
export const withoutCollections = [
  "--min-semi-space-size=128",
  "--max-semi-space-size=128",
  "--initial-heap-size=1024",
];

const running = new Set<ChildProcess>();
process.on("exit", () => {
  for (const child of running) child.kill("SIGKILL");
});
for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => process.exit(1));

/** `command`: arguments of Node. The process ends with this one at the latest. */
export function startChild(command: readonly string[], { core, nice = 0, env }: ChildOptions): Child {
  const pinned = ["-c", String(core), "nice", "-n", String(nice), process.execPath, ...command];
  const child = spawn("taskset", pinned, {
    stdio: ["ignore", "ignore", "inherit", "ipc"],
    env: { ...process.env, ...env },
  });
  running.add(child);
  child.on("error", () => {}).once("exit", () => running.delete(child));
  return {
    pid: child.pid ?? 0,
    hasEnded: () => hasEnded(child),
    ask: (message) => ask(child, message),
    stop: () => stop(child),
  };
}

function hasEnded({ exitCode, signalCode }: ChildProcess): boolean {
  return exitCode !== null || signalCode !== null;
}

function ask<Reply>(child: ChildProcess, message: object): Promise<Reply> {
  return new Promise((resolve, reject) => {
    const onExit = (): void => reject(new Error(`a process of the bench ended: ${child.spawnargs.join(" ")}`));
    const onMessage = (reply: unknown): void => {
      child.off("exit", onExit);
      resolve(reply as Reply);
    };
    if (hasEnded(child)) return onExit();
    child.once("exit", onExit);
    child.once("message", onMessage);
    child.send(message, (error) => {
      if (error !== null) reject(error);
    });
  });
}

/** Kills the processes: a gateway under attack would drain for 25 seconds. */
async function stop(child: ChildProcess): Promise<void> {
  if (hasEnded(child)) return;
  const exited = once(child, "exit");
  child.kill("SIGKILL");
  await exited;
}
