// A gateway for one attack: the default configuration with the ports that the attack needs, on a core of its own.
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { accepts, freePort } from "../processes.ts";
import { type Attack, attackerAddress, type Carrier, type Keys, type Ports } from "./attack.ts";
import { type Child, startChild } from "./children.ts";

export interface GatewayPlace {
  readonly folder: string;
  readonly checkout: string;
  readonly upstreamPort: number;
  readonly certificate: { readonly certFile: string; readonly keyFile: string };
  readonly core: number;
  /** Null: no attack needs a store. */
  readonly storePort: number | null;
}

export interface Gateway {
  readonly ports: Ports;
  readonly child: Child;
}

/** How traffic is carried. For attacks on ext-auth, the admin listener and by the upstream, traffic is plain. */
export const isTls = (carrier: Carrier): boolean => carrier === "tls" || carrier === "http2";

let started = 0;

/** Another process may take a port between its choice and its use. */
const maxTries = 5;

export async function startGateway(
  place: GatewayPlace,
  attack: Pick<Attack, "carrier" | "keys" | "usesStore">,
  { watchesTurns = false } = {},
): Promise<Gateway> {
  for (let tries = 1; tries <= maxTries; tries += 1) {
    const gateway = await tryGateway(place, attack, watchesTurns);
    if (gateway !== null) return gateway;
  }
  throw new Error(`the gateway does not start, see ${place.folder}`);
}

/** Null if it ended. */
async function tryGateway(
  place: GatewayPlace,
  { carrier, keys = {}, usesStore = false }: Pick<Attack, "carrier" | "keys" | "usesStore">,
  watchesTurns: boolean,
): Promise<Gateway | null> {
  const [traffic, admin, checks, grpc] = [await freePort(), await freePort(), await freePort(), await freePort()];
  const ports: Ports = { traffic, admin, checks, grpc };
  started += 1;
  const file = join(place.folder, `gateway-${started}.yaml`);
  const redis = { url: `redis://127.0.0.1:${place.storePort}`, prefix: `bench-${started}` };
  const counters = usesStore ? { counters: { store: "redis", redis } } : {};
  const own = { ...configuration(place, ports, carrier), ...counters };
  writeFileSync(file, JSON.stringify(merged(own, knownKeys(place.checkout, keys))));
  const preload = watchesTurns ? ["--import", join(import.meta.dirname, "turn-watch.ts")] : [];
  const main = join(place.checkout, "dist/main.js");
  const child = startChild([...preload, main, "start", "--config", file], { core: place.core });
  while (!(await accepts(traffic))) {
    if (child.hasEnded()) return null;
    await sleep(20);
  }
  // In its first half second without work it gives back the memory of its start, in one turn of 40 ms.
  await sleep(1_200);
  return { ports, child };
}

function configuration(place: GatewayPlace, ports: Ports, carrier: Carrier): Record<string, unknown> {
  const host = "127.0.0.1";
  const { certFile: cert, keyFile: key } = place.certificate;
  const asksForChecks = carrier === "ext-auth" || carrier === "grpc";
  return {
    listen: {
      host,
      port: ports.traffic,
      ...(isTls(carrier) ? { tls: { cert, key, http2: true } } : {}),
      ...(carrier === "proxy" ? { proxyProtocol: true } : {}),
    },
    admin: { host, port: ports.admin },
    upstream: { url: `http://127.0.0.1:${place.upstreamPort}` },
    ...(asksForChecks
      ? {
          extAuth: {
            // The attacker and the other clients; strangers come from other addresses.
            trustedCallers: [attackerAddress, "127.0.2.0/24"],
            http: { enabled: true, host, port: ports.checks },
            grpc: { enabled: true, host, port: ports.grpc },
          },
        }
      : {}),
  };
}

/** Another checkout may lack a bound that has to be raised for ordinary traffic. */
function knownKeys(checkout: string, keys: Keys): Keys {
  const listen = keys["listen"];
  if (typeof listen !== "object" || listen === null) return keys;
  const schema = readFileSync(join(checkout, "config/headgate.schema.json"), "utf8");
  return { ...keys, listen: Object.fromEntries(Object.entries(listen).filter(([key]) => schema.includes(`"${key}"`))) };
}

/** Sections are merged key by key. */
function merged(base: Record<string, unknown>, keys: Keys): Record<string, unknown> {
  const isSection = (value: unknown): value is object => typeof value === "object" && !Array.isArray(value);
  const both = { ...base };
  for (const [key, value] of Object.entries(keys)) {
    const under = base[key];
    both[key] = isSection(value) && isSection(under) ? { ...under, ...value } : value;
  }
  return both;
}

/** CPU time of all threads of a process, in microseconds. */
export const threadsCpuUs = (pid: number): number => schedulerUs(pid, 0);

/** CPU time, and time in which a thread waited for its core. */
export const busyUs = (pid: number): number => schedulerUs(pid, 0) + schedulerUs(pid, 1);

function schedulerUs(pid: number, field: number): number {
  const files = readdirSync(`/proc/${pid}/task`).map((thread) => `/proc/${pid}/task/${thread}/schedstat`);
  return files.reduce((sum, file) => sum + Number(readFileSync(file, "latin1").split(" ")[field]), 0) / 1000;
}

/** Sets the peak to what the process holds now. */
export function forgetPeak(pid: number): void {
  writeFileSync(`/proc/${pid}/clear_refs`, "5");
}

export function memoryOf(pid: number): { readonly nowBytes: number; readonly peakBytes: number } {
  const status = readFileSync(`/proc/${pid}/status`, "latin1");
  const bytes = (name: string): number => Number(new RegExp(`^${name}:\\s+(\\d+) kB$`, "m").exec(status)?.[1]) * 1024;
  return { nowBytes: bytes("VmRSS"), peakBytes: bytes("VmHWM") };
}
