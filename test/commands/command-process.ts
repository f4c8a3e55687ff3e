// The command as a user starts it: a process of its own, what it prints, and its exit code. It ends with the test.
import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { onTestFinished } from "vitest";
import { startProcessGroup } from "../support/process-group.ts";

export const main = fileURLToPath(new URL("../../src/main.ts", import.meta.url));
const root = fileURLToPath(new URL("../..", import.meta.url));

export interface Run {
  readonly process: ChildProcess;
  readonly output: { out: string; err: string };
  /** Resolves when the pattern is in what was written to standard output. */
  until(pattern: RegExp): Promise<RegExpExecArray>;
  readonly exited: Promise<number | null>;
}

/** `env`: besides PATH. */
export function headgate(args: readonly string[], env: Readonly<Record<string, string>> = {}): Run {
  return run(process.execPath, [main, ...args], env);
}

export function run(command: string, args: readonly string[], env: Readonly<Record<string, string>> = {}): Run {
  const { child, end } = startProcessGroup(command, args, { cwd: root, env: { PATH: process.env["PATH"], ...env } });
  onTestFinished(end);
  const output = { out: "", err: "" };
  const watchers = new Set<() => void>();
  child.stdout.on("data", (data: Buffer) => {
    output.out += data.toString();
    for (const watcher of watchers) watcher();
  });
  child.stderr.on("data", (data: Buffer) => {
    output.err += data.toString();
  });
  const exited = once(child, "close").then(([code]) => code as number | null);
  return {
    process: child,
    output,
    exited,
    until: (pattern) =>
      new Promise((resolve, reject) => {
        const watcher = (): void => {
          const match = pattern.exec(output.out);
          if (match === null) return;
          watchers.delete(watcher);
          resolve(match);
        };
        watchers.add(watcher);
        watcher();
        exited.then((code) => reject(new Error(`exited with ${code}: ${output.out}${output.err}`)));
      }),
  };
}

export async function portOf(run: Run, listener: string): Promise<number> {
  const match = await run.until(new RegExp(`"listener":"${listener}","host":"[^"]+","port":(\\d+)`));
  return Number(match[1]);
}
