// Redis servers of a test's own: one, one with a replica and Sentinels, or a cluster. Each has free ports of the loopback and a
// folder in memory, since it answers nobody while it waits for a sync. Nothing is persisted unless asked for, nothing is left
// behind, whatever ends the test.
import { spawnSync } from "node:child_process";
import { once } from "node:events";
import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { join } from "node:path";
import { eventually } from "./eventually.ts";
import { freePort } from "./free-port.ts";
import { type ProcessGroup, startProcessGroup } from "./process-group.ts";
import { scratchFolder } from "./scratch.ts";

const isInstalled = ["redis-server", "redis-sentinel", "redis-cli"].every(
  (program) => spawnSync(program, ["--version"]).status === 0,
);
const { HEADGATE_REQUIRE } = process.env;

/** For `describe.skipIf` and `test.skipIf`. HEADGATE_REQUIRE=all turns what is missing into a failure. */
export const skipRedis = !isInstalled && HEADGATE_REQUIRE !== "all";
/** At the end of a name: says what a skipped test needs. */
export const redisNeeded = skipRedis ? " (needs redis-server)" : "";

export interface RedisOptions {
  /** Further lines of its configuration, such as "maxmemory 10mb". */
  readonly config?: readonly string[];
  /** Writes are appended to a file, each before it is acknowledged: a restart forgets nothing. */
  readonly appendOnly?: boolean;
}

export interface RedisServer {
  readonly port: number;
  /** Of the process that runs now. */
  readonly pid: number;
  /** Asks it to end, and removes its folder. */
  stop(): Promise<void>;
  /** SIGKILL. The folder stays for `restart`. */
  kill(): Promise<void>;
  /** Starts it again on the same port; ends it before if it runs. */
  restart(): Promise<void>;
  /** What redis-cli prints, without the last line feed. Throws if it fails. */
  cli(...args: string[]): string;
}

/** A node of a cluster listens on a second port, for the other nodes. */
const busOffset = 10_000;

export async function startRedis(options: RedisOptions = {}): Promise<RedisServer> {
  const lines = [
    'save ""',
    `appendonly ${options.appendOnly === true ? "yes" : "no"}`,
    "appendfsync always",
    "repl-diskless-sync-delay 0",
    ...(options.config ?? []),
  ];
  const isNode = lines.includes("cluster-enabled yes");
  return startProgram("redis-server", await freePort(isNode ? busOffset : 0), lines);
}

export interface RedisWithSentinels {
  /** By which the sentinels know the primary. */
  readonly name: string;
  /** At the start: the first is the primary. */
  readonly servers: readonly RedisServer[];
  readonly sentinels: readonly RedisServer[];
  /** The port of the server that the sentinels take for the primary. */
  primaryPort(): number;
  stop(): Promise<void>;
}

/** One primary, one replica, and three sentinels that promote the replica within about a second. */
export async function startRedisWithSentinels(options: RedisOptions = {}): Promise<RedisWithSentinels> {
  const name = "counters";
  const primary = await startRedis(options);
  const replica = await startRedis({
    ...options,
    config: [...(options.config ?? []), `replicaof 127.0.0.1 ${primary.port}`],
  });
  await eventually("the replica follows", () => primary.cli("INFO", "replication").includes("state=online"), 20_000);
  const watched = [
    `sentinel monitor ${name} 127.0.0.1 ${primary.port} 2`,
    `sentinel down-after-milliseconds ${name} 500`,
    `sentinel failover-timeout ${name} 2000`,
    `sentinel parallel-syncs ${name} 1`,
  ];
  const sentinels = await Promise.all(
    [1, 2, 3].map(async () => startProgram("redis-sentinel", await freePort(), watched)),
  );
  const knowsAll = (sentinel: RedisServer): boolean => {
    const facts = pairs(sentinel.cli("SENTINEL", "MASTER", name));
    return facts.get("num-slaves") === "1" && facts.get("num-other-sentinels") === "2";
  };
  await eventually("the sentinels know each other", () => sentinels.every(knowsAll), 20_000);
  // A sentinel that could not run for 2 s takes no decision for 30 s. By then the replica has been without its primary for so long
  // that no sentinel promotes it any more. (Redis 6 has no such command.)
  for (const sentinel of sentinels) sentinel.cli("SENTINEL", "DEBUG", "tilt-period", "1000");
  return {
    name,
    servers: [primary, replica],
    sentinels,
    primaryPort: () => {
      const answering = sentinels[0]?.cli("SENTINEL", "GET-MASTER-ADDR-BY-NAME", name) ?? "";
      return Number(answering.split("\n")[1]);
    },
    stop: async () => void (await Promise.all([...sentinels, replica, primary].map((server) => server.stop()))),
  };
}

export interface RedisCluster {
  /** Three primaries, then their replicas. */
  readonly servers: readonly RedisServer[];
  stop(): Promise<void>;
}

/** Three primaries with a third of the slots each, and a replica of each; a failover takes about a second. */
export async function startRedisCluster(options: RedisOptions = {}): Promise<RedisCluster> {
  const ports = await Promise.all(Array.from({ length: 6 }, () => freePort(busOffset)));
  const lines = [
    'save ""',
    `appendonly ${options.appendOnly === true ? "yes" : "no"}`,
    "appendfsync always",
    "repl-diskless-sync-delay 0",
    "cluster-enabled yes",
    "cluster-config-file nodes.conf",
    "cluster-node-timeout 1000",
    ...(options.config ?? []),
  ];
  const servers = await Promise.all(ports.map((port) => startProgram("redis-server", port, lines)));
  const [first] = servers;
  if (first === undefined) throw new Error("no server was started");
  first.cli(
    "--cluster",
    "create",
    ...ports.map((port) => `127.0.0.1:${port}`),
    "--cluster-replicas",
    "1",
    "--cluster-yes",
  );
  const isReady = (server: RedisServer): boolean =>
    server.cli("CLUSTER", "INFO").includes("cluster_state:ok") &&
    server.cli("CLUSTER", "NODES").split("slave ").length === 4;
  const follows = (server: RedisServer): boolean => {
    const replication = server.cli("INFO", "replication");
    return replication.includes("role:master") || replication.includes("master_link_status:up");
  };
  await eventually("the cluster is ready", () => servers.every((server) => isReady(server) && follows(server)), 30_000);
  return { servers, stop: async () => void (await Promise.all(servers.map((server) => server.stop()))) };
}

/** A sentinel writes to its configuration: the file is written once, and a restart reads what has become of it. */
async function startProgram(program: string, port: number, lines: readonly string[]): Promise<RedisServer> {
  if (!isInstalled) throw new Error(`${program} is not installed`);
  // Removed by `stop`.
  const folder = scratchFolder(() => {});
  const [file, log] = [join(folder, "server.conf"), join(folder, "server.log")];
  const own = [`port ${port}`, "bind 127.0.0.1", `dir ${folder}`, `logfile ${log}`, "daemonize no"];
  writeFileSync(file, [...own, ...lines, ""].join("\n"));
  const start = async (): Promise<ProcessGroup<"ignore", "ignore">> => {
    const started = startProcessGroup(program, [file], { stdout: "ignore", stderr: "ignore" });
    await isServing(port, started, log);
    return started;
  };
  let group = await start();
  const stop = async (): Promise<void> => {
    group.child.kill("SIGTERM");
    const timer = setTimeout(() => void group.end(), 2_000);
    await group.exited;
    clearTimeout(timer);
  };
  return {
    port,
    get pid() {
      return group.child.pid ?? -1;
    },
    stop: async () => {
      await stop();
      rmSync(folder, { recursive: true, force: true });
    },
    kill: () => group.end(),
    restart: async () => {
      await group.end();
      group = await start();
    },
    cli: (...args) => {
      const { status, stdout, stderr } = spawnSync("redis-cli", ["-p", String(port), ...args], { encoding: "utf8" });
      if (status !== 0) throw new Error(`redis-cli ${args.join(" ")}: ${stderr}${stdout}`);
      return stdout.trimEnd();
    },
  };
}

/** Resolves when it answers PING with PONG, or that a password is missing. */
async function isServing(port: number, { child }: ProcessGroup<"ignore", "ignore">, log: string): Promise<void> {
  await eventually(
    "redis answers",
    async () => {
      if (child.exitCode !== null) throw new Error(`it exited with ${child.exitCode}:\n${readFileSync(log, "utf8")}`);
      return /^(?:\+PONG|-NOAUTH|-NOPERM|-MASTERDOWN)/.test(await asked(port));
    },
    10_000,
  );
}

async function asked(port: number): Promise<string> {
  const socket = connect(port, "127.0.0.1");
  try {
    socket.write("PING\r\n");
    const [reply] = await once(socket, "data");
    return String(reply);
  } catch {
    return "no answer";
  } finally {
    socket.destroy();
  }
}

/** redis-cli prints a map as lines: a name, its value. */
function pairs(printed: string): Map<string, string> {
  const lines = printed.split("\n");
  return new Map(lines.flatMap((name, i) => (i % 2 === 0 ? [[name, lines[i + 1] ?? ""] as const] : [])));
}
