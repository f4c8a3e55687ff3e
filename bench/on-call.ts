// What an operator who looks costs the clients. Two gateways in turn, one that nobody looks at, and one with a million clients
// in its table, 10,000 rules, 16 streams of events and a sorted list of clients each second: CPU time of a GET and p99, as
// ratios of neighbouring rounds; then the longest turn of the event loop in processor time.
// Usage: npm run build && node bench/on-call.ts [--clients N] [--rules N] [--rounds N] [--seconds N]. Needs nginx and wrk.
import { fork } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { Agent, get, request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import { median } from "./figures.ts";
import { gatewayFrame } from "./gateway-config.ts";
import type { TurnFigures } from "./hostile/turn-watch.ts";
import { wrk } from "./load.ts";
import { configOfMany, fillTable } from "./many-clients.ts";
import { accepts, cpuTimeUs, freePort, type Running, start } from "./processes.ts";
import { startUpstream } from "./upstream.ts";

const number = { type: "string" } as const;
const { values } = parseArgs({ options: { clients: number, rules: number, rounds: number, seconds: number } });
const clients = Number(values.clients ?? 1_000_000);
const rules = Number(values.rules ?? 10_000);
const rounds = Number(values.rounds ?? 5);
const seconds = Number(values.seconds ?? 6);
const streams = 16;
const cores = { contender: 1, load: 0 };
const main = join(import.meta.dirname, "..", "dist/main.js");
const folder = mkdtempSync(join(tmpdir(), "headgate-on-call-"));
const say = (text: string): void => void process.stdout.write(`${text}\n`);

interface Gateway {
  readonly port: number;
  readonly socket: string;
  readonly config: string;
}

const upstream = await startUpstream(folder, cores.load);
const [plain, watched, measured] = [await configure("plain"), await configure("watched"), await configure("measured")];
const running: Running[] = [];
try {
  for (const gateway of [plain, watched]) {
    const command = [process.execPath, main, "start", "--config", gateway.config];
    running.push(await start(command, { core: cores.contender, port: gateway.port }));
  }
  await fill(watched);
  const looking = look(watched);
  const results: { cpuUs: number; p99Us: number }[][] = [];
  // Code that is compiled while it is measured would be the difference.
  for (const [i, gateway] of [plain, watched].entries()) await measure(gateway, running[i]);
  for (let round = 0; round < rounds; round += 1) {
    const pair = [await measure(plain, running[0]), await measure(watched, running[1])];
    results.push(pair);
    say(`round ${round + 1}: ${pair.map(({ cpuUs, p99Us }) => `${cpuUs.toFixed(1)} µs, p99 ${p99Us} µs`).join(" | ")}`);
  }
  say(`CPU of a GET × nobody looking: ${ratio(results, "cpuUs")}; p99: ${ratio(results, "p99Us")}`);
  say(`sorted lists read: ${await looking.stop()}`);
  for (const each of running.splice(0)) await each.stop();
  await longestTurn(measured);
} finally {
  for (const each of running) await each.stop();
  await upstream.running.stop();
  rmSync(folder, { recursive: true, force: true });
}

function ratio(results: readonly (readonly { cpuUs: number; p99Us: number }[])[], what: "cpuUs" | "p99Us"): string {
  const ratios = results.map(([a, b]) => (b?.[what] ?? 0) / (a?.[what] ?? 1));
  const range = `${Math.min(...ratios).toFixed(2)} to ${Math.max(...ratios).toFixed(2)}`;
  return `${median(ratios).toFixed(3)} (${range})`;
}

async function configure(name: string): Promise<Gateway> {
  const [port, admin, socket, config] = [
    await freePort(),
    await freePort(),
    join(folder, `${name}.sock`),
    join(folder, `${name}.yaml`),
  ];
  const frame = gatewayFrame({ port, admin, upstreamPort: upstream.port }).replace(
    /^admin: .*$/m,
    `admin: { host: 127.0.0.1, port: ${admin}, socket: ${socket} }`,
  );
  const policy = "policies: [{ name: per-client, limit: 1000000000, window: 1h }]";
  writeFileSync(config, configOfMany(frame, policy));
  return { port, socket, config };
}

async function measure({ port }: Gateway, process: Running | undefined): Promise<{ cpuUs: number; p99Us: number }> {
  const pid = process?.pid ?? 0;
  const load = { path: "/v2/200b", connections: 50, seconds, headers: { Authorization: "Bearer x" } } as const;
  const before = cpuTimeUs(pid);
  const { requests, errors, refused, p99Us } = await wrk(port, load, folder, cores.load);
  if (errors + refused > 0) throw new Error(`${errors} errors, ${refused} refused`);
  return { cpuUs: (cpuTimeUs(pid) - before) / requests, p99Us };
}

/** Requests of so many addresses, without a token, and rules about others. */
async function fill({ port, socket }: Gateway): Promise<void> {
  const began = performance.now();
  await fillTable(port, clients);
  const agent = new Agent({ keepAlive: true, maxSockets: 4 });
  const putRule = (i: number) => {
    const network = `172.${16 + (i >> 16)}.${(i >> 8) & 255}.${i & 255}`;
    const body = JSON.stringify({ client: network, action: i % 2 === 0 ? "block" : "exempt", for: "1h" });
    return ask(agent, socket, "PUT", `/api/rules/r${i}`, body, 201);
  };
  for (let i = 0; i < rules; i += 4) await Promise.all([i, i + 1, i + 2, i + 3].filter((n) => n < rules).map(putRule));
  agent.destroy();
  say(`${clients} clients and ${rules} rules in ${Math.round((performance.now() - began) / 1000)} s`);
}

function ask(
  agent: Agent,
  socketPath: string,
  method: string,
  path: string,
  body: string,
  expected: number,
): Promise<void> {
  return new Promise((resolve, reject) => {
    const headers = { "Content-Type": "application/json" };
    const sent = request({ agent, socketPath, method, path, headers }, (response) => {
      response.resume();
      response.once("end", () =>
        response.statusCode === expected ? resolve() : reject(new Error(`${path}: ${response.statusCode}`)),
      );
    });
    sent.once("error", reject);
    sent.end(body);
  });
}

/** Looks until `stop`, which says how many lists were read. */
function look({ socket: socketPath }: Gateway): { stop(): Promise<number> } {
  const open = Array.from({ length: streams }, () =>
    get({ socketPath, path: "/api/events", agent: false }, (response) => void response.resume()).on("error", () => {}),
  );
  let isOver = false;
  let lists = 0;
  const reading = (async () => {
    const agent = new Agent({ keepAlive: true });
    while (!isOver) {
      const pause = sleep(1_000);
      const sort = lists % 2 === 0 ? "used" : "refused";
      await ask(agent, socketPath, "GET", `/api/clients?sort=${sort}&limit=50`, "", 200);
      lists += 1;
      await pause;
    }
    agent.destroy();
  })();
  return {
    async stop() {
      isOver = true;
      await reading;
      for (const each of open) each.destroy();
      return lists;
    },
  };
}

async function longestTurn(gateway: Gateway): Promise<void> {
  const execArgv = ["--import", join(import.meta.dirname, "hostile/turn-watch.ts")];
  const child = fork(main, ["start", "--config", gateway.config], {
    execArgv,
    stdio: ["ignore", "ignore", "inherit", "ipc"],
  });
  try {
    while (!(await accepts(gateway.port))) await sleep(20);
    await fill(gateway);
    const looking = look(gateway);
    // The first list and the first stream load and compile what they need.
    await sleep(5_000);
    await read(child);
    await wrk(
      gateway.port,
      { path: "/v2/200b", connections: 50, seconds: 15, headers: { Authorization: "Bearer x" } },
      folder,
      cores.load,
    );
    const { longestTurnUs, longestTurnStep } = await read(child);
    say(
      `longest turn: ${(longestTurnUs / 1000).toFixed(1)} ms of processor time (${longestTurnStep}); lists ${await looking.stop()}`,
    );
  } finally {
    child.kill("SIGTERM");
    await once(child, "exit");
  }
}

async function read(child: ReturnType<typeof fork>): Promise<TurnFigures> {
  const answer = once(child, "message");
  child.send({ read: true });
  return (await answer)[0] as TurnFigures;
}
