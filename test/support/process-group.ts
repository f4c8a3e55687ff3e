// A program that a test starts, with everything that program starts in turn. All of it ends together: when the test says
// so, when the program exits, and when the process of the test ends in any way, SIGKILL included.
import { type ChildProcessByStdio, spawn } from "node:child_process";
import { once } from "node:events";
import type { Readable, Writable } from "node:stream";

type Output = "pipe" | "ignore" | "inherit" | number;
type Stream<O extends Output> = O extends "pipe" ? Readable : null;

export interface ProcessGroup<Out extends Output, Err extends Output> {
  readonly child: ChildProcessByStdio<Writable, Stream<Out>, Stream<Err>>;
  /** Resolves when the program itself has exited. */
  readonly exited: Promise<{ readonly code: number | null; readonly signal: NodeJS.Signals | null }>;
  /** Kills the whole group, if the program has not exited yet. Resolves when it has. */
  end(): Promise<void>;
}

/**
 * The subshell waits for the end of a pipe that only the test's process holds open, then kills the group. `exec` makes the
 * child's pid, signals and exit code those of the program.
 */
const script = `
  exec 3<&0 </dev/null
  (read -r _line <&3; kill -KILL 0) >/dev/null 2>&1 &
  exec 3<&-
  exec "$0" "$@"`;

/** A command that does not exist exits with 127. Standard input is empty. */
export function startProcessGroup<Out extends Output = "pipe", Err extends Output = "pipe">(
  command: string,
  args: readonly string[],
  options: {
    readonly stdout?: Out;
    readonly stderr?: Err;
    readonly env?: NodeJS.ProcessEnv;
    readonly cwd?: string;
    /** Opens an IPC channel to a program that is Node. */
    readonly ipc?: boolean;
  } = {},
): ProcessGroup<Out, Err> {
  const { stdout = "pipe", stderr = "pipe", ipc = false, ...surroundings } = options;
  const child = spawn("/bin/sh", ["-c", script, command, ...args], {
    ...surroundings,
    detached: true,
    // The script uses 3 itself.
    stdio: ["pipe", stdout, stderr, ...(ipc ? (["ignore", "ipc"] as const) : [])],
  }) as ChildProcessByStdio<Writable, Stream<Out>, Stream<Err>>;
  // Ends what the program leaves behind when it exits by itself.
  child.once("exit", () => child.stdin.destroy());
  const exited = once(child, "exit").then(([code, signal]) => ({ code, signal }));
  const end = async (): Promise<void> => {
    const isRunning = child.exitCode === null && child.signalCode === null;
    if (isRunning && child.pid !== undefined) process.kill(-child.pid, "SIGKILL");
    await exited;
  };
  return { child, exited, end };
}
