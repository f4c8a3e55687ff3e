// A real server behind the gateway, as a process of its own in a folder of its own, and its log of what it saw, read as
// it grows. Whatever a server takes for a request leaves a line there, be it one that nobody sent.
import { type ChildProcess, spawnSync } from "node:child_process";
import { closeSync, fstatSync, mkdtempSync, openSync, readFileSync, readSync, rmSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { eventually } from "../../../support/eventually.ts";
import { freePort } from "../../../support/free-port.ts";
import { startProcessGroup } from "../../../support/process-group.ts";

export interface SeenRequest {
  /** X-Request-Id; empty if it was not a request to the server, or had none. */
  readonly id: string;
  /** The gateway's port of the connection. */
  readonly port: number;
  /** Method, target and version; null if the server could not read it as a request and refused it. */
  readonly line: string | null;
  /** `name: value` in lower case where the server keeps them: all of them, or those it was asked for. */
  readonly fields: readonly string[];
  /** Null if the server does not tell, or the body broke off. */
  readonly body: string | null;
}

export interface Backend {
  readonly url: string;
  readonly port: number;
  /** What this server's log must show of the fields that were sent; `seen` is what it does show. */
  readonly shownAs: (sent: readonly string[], seen: readonly string[]) => readonly string[];
  /** What it saw since the last call. */
  readonly take: () => SeenRequest[];
  /** Ends it; what it had not logged yet is there for a last `take` then. */
  stop(): Promise<void>;
  remove(): Promise<void>;
}

export interface BackendPlan {
  readonly command: string;
  readonly args: (folder: string) => readonly string[];
  /** Written into the folder before the start, `config` first. */
  readonly files: (folder: string, port: number) => Readonly<Record<string, string>>;
  /** Its standard output is the log; else it writes the file `log` itself. */
  readonly logsToOutput: boolean;
  readonly shownAs: Backend["shownAs"];
  readonly readLine: (line: string, folder: LogFolder) => SeenRequest;
}

export interface LogFolder {
  readonly path: string;
  /** New whole lines of a file since the last call; one character is one byte. */
  lines(file: string): string[];
}

export interface RealServer {
  readonly name: string;
  /** What to install where it is missing. */
  readonly debianPackage: string;
  readonly isInstalled: () => boolean;
  readonly start: () => Promise<Backend>;
}

/** White space as HTTP knows it: a byte of 0xa0 is none. */
export const trimmed = (value: string): string => value.replace(/^[ \t]+|[ \t]+$/g, "");

export const isInstalled = (command: string, version = "-v"): boolean =>
  spawnSync(command, [version]).error === undefined;

export async function startBackend(plan: BackendPlan): Promise<Backend> {
  const folder = mkdtempSync(join(tmpdir(), "headgate-backend-"));
  const port = await freePort();
  for (const [name, text] of Object.entries(plan.files(folder, port))) writeFileSync(join(folder, name), text);
  const output = openSync(join(folder, plan.logsToOutput ? "log" : "output"), "a");
  const errors = openSync(join(folder, "errors"), "a");
  const group = startProcessGroup(plan.command, plan.args(folder), { stdout: output, stderr: errors });
  const { child } = group;
  closeSync(output);
  closeSync(errors);
  await ready(child, port, join(folder, "errors"));
  const log = tails(folder);
  return {
    url: `http://127.0.0.1:${port}`,
    port,
    shownAs: plan.shownAs,
    take: () => log.lines("log").map((line) => plan.readLine(line, log)),
    stop: async () => {
      child.kill("SIGTERM");
      await group.exited;
    },
    remove: async () => {
      await group.end();
      log.close();
      rmSync(folder, { recursive: true, maxRetries: 3 });
    },
  };
}

async function ready(child: ChildProcess, port: number, errors: string): Promise<void> {
  const listens = (): Promise<boolean> => {
    if (child.exitCode !== null) throw new Error(`the server did not start: ${readFileSync(errors, "utf8")}`);
    return accepts(port);
  };
  await eventually("the server listens", listens, 20_000);
}

export function accepts(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1", () => {
      socket.destroy();
      resolve(true);
    });
    socket.on("error", () => resolve(false));
  });
}

function tails(path: string): LogFolder & { close: () => void } {
  const open = new Map<string, { fd: number; offset: number; rest: string }>();
  return {
    path,
    lines(file) {
      const tail = open.get(file) ?? { fd: openSync(join(path, file), "a+"), offset: 0, rest: "" };
      open.set(file, tail);
      const bytes = Buffer.alloc(fstatSync(tail.fd).size - tail.offset);
      tail.offset += readSync(tail.fd, bytes, 0, bytes.length, tail.offset);
      const lines = (tail.rest + bytes.toString("latin1")).split("\n");
      tail.rest = lines.pop() ?? "";
      return lines;
    },
    close: () => {
      for (const { fd } of open.values()) closeSync(fd);
    },
  };
}
