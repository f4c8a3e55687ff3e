// The gateway as a process of its own, as an operator starts it: what a test does in its own process (thousands of
// connections, garbage collection) then neither slows it nor counts as its sockets.
import { once } from "node:events";
import { readdirSync, readFileSync } from "node:fs";
import { get } from "node:http";
import { fileURLToPath } from "node:url";
import type { TurnFigures } from "../../bench/hostile/turn-watch.ts";
import type { Cleanup } from "./cleanup.ts";
import { within } from "./eventually.ts";
import { startProcessGroup } from "./process-group.ts";
import { readTurns, turnWatch } from "./turn-figures.ts";

const main = fileURLToPath(new URL("../../src/main.ts", import.meta.url));

export interface GatewayProcess {
  readonly pid: number;
  readonly port: number;
  readonly adminPort: number;
  /** What it wrote so far. */
  readonly output: { out: string; err: string };
  readonly exited: Promise<{ code: number | null; signal: string | null }>;
  signal(name: NodeJS.Signals): void;
  /** Open file descriptors, sockets among them. Linux only. */
  openFiles(): number;
  /** Processor time used so far. Linux only. */
  cpuMs(): number;
  /** Resident memory: now, and the most so far. Linux only. */
  memory(): { nowBytes: number; peakBytes: number };
  /** The figures of a scrape, by name and labels as they are written. */
  figures(): Promise<ReadonlyMap<string, number>>;
  readiness(): Promise<number>;
  /** The longest turn of its event loop since the last call. Only if it is watched. */
  turns(): Promise<TurnFigures>;
}

/** It ends a start that hangs. On a busy machine, a process that starts beside others takes long. */
export const startsWithinMs = 60_000;

const unlimited = [
  "policies.0.limit=1000000",
  "listen.newConnectionsPerPeer=1000000",
  "refusals.perSecond=1000000",
  "refusals.burst=1000000",
];

/**
 * `settings`: as `--set` takes them, over `config` (or the packaged defaults) and a limit that is none, on free loopback
 * ports. The level of the log must leave `info` in: it says where the ports are.
 */
export async function startGatewayProcess(
  cleanup: Cleanup,
  upstreamUrl: string,
  settings: readonly string[],
  options: {
    readonly maxOpenFiles?: number;
    readonly config?: string;
    readonly watchesTurns?: boolean;
    readonly env?: Readonly<Record<string, string>>;
  } = {},
): Promise<GatewayProcess> {
  const listeners = ["--upstream", upstreamUrl, "--host", "127.0.0.1", "--port", "0", "--admin-port", "0"];
  const set = [...unlimited, ...settings].flatMap((setting) => ["--set", setting]);
  const { maxOpenFiles = "unlimited", config, watchesTurns = false, env = {} } = options;
  const file = config === undefined ? [] : ["--config", config];
  const preload = watchesTurns ? ["--import", turnWatch] : [];
  const command = [process.execPath, ...preload, main, "start", ...file, ...listeners, ...set];
  const limit = maxOpenFiles === "unlimited" ? ":" : `ulimit -n ${maxOpenFiles}`;
  const { child, end } = startProcessGroup("/bin/sh", ["-c", `${limit}; exec "$0" "$@"`, ...command], {
    env,
    ipc: watchesTurns,
  });
  const output = { out: "", err: "" };
  let wake: () => void = () => {};
  child.stdout.on("data", (data: Buffer) => {
    output.out += data.toString();
    wake();
  });
  child.stderr.on("data", (data: Buffer) => {
    output.err += data.toString();
  });
  const exited = once(child, "close").then(([code, signal]) => ({ code, signal }));
  void exited.then(() => wake());
  cleanup(end);
  const portOf = async (listener: string): Promise<number> => {
    const pattern = new RegExp(`"listener":"${listener}","host":"[^"]+","port":(\\d+)`);
    for (;;) {
      const match = pattern.exec(output.out);
      if (match !== null) return Number(match[1]);
      if (child.exitCode !== null) throw new Error(`exited with ${child.exitCode}: ${output.out}${output.err}`);
      await new Promise<void>((resolve) => {
        wake = resolve;
      });
    }
  };
  const port = await within("the traffic listener", portOf("traffic"), startsWithinMs);
  const adminPort = await within("the admin listener", portOf("admin"), startsWithinMs);
  return {
    pid: child.pid ?? 0,
    port,
    adminPort,
    output,
    exited,
    signal: (name) => void child.kill(name),
    cpuMs: () => cpuMs(readFileSync(`/proc/${child.pid}/stat`, "utf8")),
    memory: () => residentMemory(readFileSync(`/proc/${child.pid}/status`, "utf8")),
    openFiles: () => readdirSync(`/proc/${child.pid}/fd`).length,
    figures: async () => parseFigures((await ask(adminPort, "/metrics")).body),
    turns: () => readTurns(child),
    readiness: async () => (await ask(adminPort, "/readyz")).status,
  };
}

/** User and system time, in ticks of 10 ms. */
function cpuMs(stat: string): number {
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return (Number(fields[11]) + Number(fields[12])) * 10;
}

function residentMemory(status: string): { nowBytes: number; peakBytes: number } {
  const kib = (name: string): number => Number(new RegExp(`^${name}:\\s+(\\d+) kB$`, "m").exec(status)?.[1]);
  return { nowBytes: kib("VmRSS") * 1024, peakBytes: kib("VmHWM") * 1024 };
}

/** Over a connection of its own that ends with the answer: none is left over to be counted. */
async function ask(port: number, path: string): Promise<{ status: number; body: string }> {
  const [response] = await once(get({ host: "127.0.0.1", port, path, agent: false }), "response");
  let body = "";
  for await (const chunk of response) body += String(chunk);
  return { status: response.statusCode, body };
}

function parseFigures(text: string): ReadonlyMap<string, number> {
  const lines = text.split("\n").filter((line) => line !== "" && !line.startsWith("#"));
  return new Map(
    lines.map((line) => {
      const space = line.lastIndexOf(" ");
      return [line.slice(0, space), Number(line.slice(space + 1))];
    }),
  );
}
