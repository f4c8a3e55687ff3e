// `npm run bench:hostile`: what hostile input costs the gateway, and what it costs other clients. One attack after the
// other, each against a gateway of its own that has a core for itself; attacker, upstream and the other clients share
// the other core, and the attacker runs only when they have nothing to do. Nothing here is a test.
//
//   npm run bench:hostile                                        all attacks, about 12 minutes
//   npm run bench:hostile -- --only chunks-1-byte,http2          attacks by name, or all of a carrier
//   npm run bench:hostile -- --against ../before --only http2    the same attacks against another checkout, too
//   npm run bench:hostile -- --all-at-once --seconds 120         all attacks at the same time
//   npm run bench:hostile -- --beside-nginx --seconds 5          what others notice, beside nginx
//   npm run --silent bench:hostile > results.log                 keeps the tables, in Markdown
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { Authority } from "../../test/support/certificates.ts";
import { freePort, installed, start as startProgram } from "../processes.ts";
import { allAtOnce } from "./all-at-once.ts";
import type { Attack } from "./attack.ts";
import { attacks } from "./attacks.ts";
import { besideNginx } from "./beside-nginx.ts";
import { type Child, startChild, withoutCollections } from "./children.ts";
import type { GatewayPlace } from "./gateway-process.ts";
import { quantile } from "./goals.ts";
import { type Figures, longestTurn, measure, type Turn } from "./measure.ts";
import { OrdinaryCosts } from "./ordinary.ts";
import { tables } from "./report.ts";
import type { Bench } from "./run.ts";
import type { UpstreamOrder, UpstreamReply } from "./upstream-process.ts";

const { values } = parseArgs({
  options: {
    only: { type: "string" },
    seconds: { type: "string", default: "1" },
    against: { type: "string" },
    "all-at-once": { type: "boolean", default: false },
    "beside-nginx": { type: "boolean", default: false },
  },
});
const seconds = Number(values.seconds);
const cores = { gateway: 0, load: 1 };
const repository = join(import.meta.dirname, "../..");
const wanted = values.only?.split(",");
const chosen = attacks.filter(({ name, carrier }) => wanted?.some((one) => one === name || one === carrier) ?? true);

function say(text: string): void {
  process.stderr.write(`${text}\n`);
}

type Costs = Omit<Figures, "turn">;

/** Measures one attack after the other; the memory of one is still watched while the next runs. */
async function measureCosts(bench: Bench, place: GatewayPlace): Promise<Costs[]> {
  const ordinary = new OrdinaryCosts(bench, place);
  const measured: Promise<Costs | null>[] = [];
  for (const attack of chosen) {
    const costs = ordinary.of(attack.carrier).then((known) => measure(bench, place, attack, known));
    const one = await orNull(attack, costs);
    if (one === null) continue;
    const { cpuMs, ratio, beside } = one.figures;
    say(`${attack.name}: ${cpuMs.toFixed(0)} ms, × ${ratio.toFixed(1)}, p99 ${quantile(beside, 0.99).toFixed(1)} ms`);
    measured.push(
      orNull(
        attack,
        one.memory.then((settled) => ({ ...one.figures, memory: settled })),
      ),
    );
  }
  return (await Promise.all(measured)).filter((one) => one !== null);
}

/** A run is not lost because one attack fails, or ends the gateway. */
async function orNull<Value>({ name }: Attack, value: Promise<Value>): Promise<Value | null> {
  try {
    return await value;
  } catch (error) {
    say(`${name} could not be measured: ${error instanceof Error ? error.message : error}`);
    process.exitCode = 1;
    return null;
  }
}

async function measureTurns(bench: Bench, place: GatewayPlace): Promise<Map<string, Turn>> {
  const turns = new Map<string, Turn>();
  const left = [...chosen];
  const worker = async (): Promise<void> => {
    for (let attack = left.shift(); attack !== undefined; attack = left.shift()) {
      const turn = await orNull(attack, longestTurn(bench, place, attack));
      if (turn === null) continue;
      turns.set(attack.name, turn);
      say(`${attack.name}: longest turn ${turn.ms.toFixed(1)} ms, iteration ${turn.iterationMs.toFixed(1)} ms`);
    }
  };
  await Promise.all([worker(), worker(), worker()]);
  return turns;
}

async function measureAll(bench: Bench, place: GatewayPlace): Promise<Figures[]> {
  const costs = await measureCosts(bench, place);
  const turns = await measureTurns({ ...bench, nice: 0 }, place);
  return costs.map((one) => ({
    ...one,
    turn: turns.get(one.attack.name) ?? { ms: Number.NaN, step: "", iterationMs: Number.NaN },
  }));
}

const command = `npm run bench:hostile -- ${process.argv.slice(2).join(" ")}`.trim();

/** Returns Markdown. */
async function oneByOne(bench: Bench, place: Omit<GatewayPlace, "checkout">): Promise<string> {
  const figures = await measureAll(bench, { ...place, checkout: repository });
  const before = values.against === undefined ? [] : await measureAll(bench, { ...place, checkout: values.against });
  return tables({ command, seconds, figures, before });
}

function measured(bench: Bench, place: Omit<GatewayPlace, "checkout">): Promise<string> {
  const one = { ...place, checkout: values.against ?? repository };
  if (values["all-at-once"]) return allAtOnce(bench, one, chosen, command);
  if (values["beside-nginx"]) return besideNginx(bench, one, chosen, command);
  return oneByOne(bench, place);
}

async function main(): Promise<void> {
  for (const tool of ["taskset", "nice", "openssl"]) if (!installed(tool)) throw new Error(`the bench needs ${tool}`);
  if (chosen.length === 0) throw new Error(`no attack and no carrier has the name ${values.only}`);
  const folder = mkdtempSync(join(existsSync("/dev/shm") ? "/dev/shm" : tmpdir(), "headgate-hostile-"));
  const cleanups: (() => unknown)[] = [() => rmSync(folder, { recursive: true, force: true })];
  const start = (file: string): Child => {
    const child = startChild([...withoutCollections, join(import.meta.dirname, file)], { core: cores.load });
    cleanups.push(() => child.stop());
    return child;
  };
  try {
    const certificate = new Authority((cleanup) => cleanups.push(cleanup)).issue({ validDays: [-1, 400] });
    const [others, upstream] = [start("others-process.ts"), start("upstream-process.ts")];
    const { port: upstreamPort } = await upstream.ask<UpstreamReply>({ kind: "read" } satisfies UpstreamOrder);
    const bench: Bench = { others, upstream, seconds, core: cores.load, nice: 10 };
    const storePort = chosen.some(({ usesStore }) => usesStore) ? await freePort() : null;
    if (storePort !== null) {
      const command = [
        "redis-server",
        "--port",
        String(storePort),
        "--bind",
        "127.0.0.1",
        "--save",
        "",
        "--dir",
        folder,
      ];
      const store = await startProgram(command, { core: cores.load, port: storePort });
      cleanups.push(() => store.stop());
    }
    const place = { folder, upstreamPort, certificate, core: cores.gateway, storePort };
    process.stdout.write(await measured(bench, place));
  } finally {
    for (const cleanup of cleanups.reverse()) await cleanup();
  }
}

await main();
