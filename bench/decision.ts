// Measures one store in a process of its own: what a decision costs, and what a client with one request weighs. Run by
// decisions.ts with the store's name and the number of clients; prints one line of JSON.
import { type Client, readPeer } from "../src/core/client-address.ts";
import { NetworkSet } from "../src/core/network-set.ts";
import { pendingVerdict, type RequestHead } from "../src/core/request-head.ts";
import { PolicyLimiter } from "../src/limits/policy-limiter.ts";
import { slidingPolicy } from "../test/support/policy.ts";

type Take = (client: Client, nowMs: number) => unknown;

const [, , name = "", count = ""] = process.argv;
const clients = Number(count);
const windowMs = 3_600_000;
const limit = 100;

const head: RequestHead = {
  peer: readPeer("192.0.2.1", { header: "x-forwarded-for", trustedProxies: new NetworkSet([]), ipv6Prefix: 64 }),
  rawHeaders: [],
  method: "GET",
  target: "/v2/x",
  httpVersion: "1.1",
  nowMs: 0,
};

const makers: Record<string, () => Promise<Take>> = {
  Headgate: async () => ownLimiter(1),
  "Headgate, 8 policies": async () => ownLimiter(8),
  async "rate-limiter-flexible"() {
    const { RateLimiterMemory } = await peer("rate-limiter-flexible");
    const limiter = new RateLimiterMemory({ points: limit, duration: windowMs / 1000 });
    return ({ key }) => limiter.consume(key).catch(() => null);
  },
  async "express-rate-limit"() {
    const { MemoryStore: Store } = await peer("express-rate-limit");
    const store = new Store();
    store.init({ windowMs });
    return ({ key }) => store.increment(key);
  },
  async "@fastify/rate-limit"() {
    const { default: LocalStore } = await peer("@fastify/rate-limit/store/LocalStore.js");
    const store = new LocalStore(false, false, clients, windowMs);
    return ({ key }) => store.incr(key, () => {}, windowMs, limit);
  },
};

/** The whole limiter; each policy has a counter for each client. */
function ownLimiter(policies: number): Take {
  const limiter = new PolicyLimiter(
    Array.from({ length: policies }, (_, i) =>
      slidingPolicy({ name: `policy-${i}`, limit: limit + i, windowMs, maxClients: clients }),
    ),
  );
  return ({ key, counterKey }, nowMs) =>
    limiter.acquire({ ...pendingVerdict.parsed, client: key, counterKey }, head, nowMs);
}

/** Installed beside the bench, not beside the gateway; without types here, so that nobody needs it for a type check. */
function peer(specifier: string) {
  return import(specifier);
}

/** As a connection knows it. Its text is a string of its own, flat, as it comes from a socket. */
function clientOf(index: number): Client {
  const bytes = [10, (index >> 16) & 255, (index >> 8) & 255, index & 255];
  const key = Buffer.from(bytes.join("."), "latin1").toString("latin1");
  return { key, counterKey: readPeer(key, head.peer.rules).counterKey };
}

/** Scattered over all clients, the same for every store. */
function scattered(index: number): number {
  return Math.imul(index, 2_654_435_761) >>> 0;
}

function heapBytes(): number {
  globalThis.gc?.();
  const { heapUsed, external, arrayBuffers } = process.memoryUsage();
  return heapUsed + external + arrayBuffers;
}

async function measure(): Promise<{ decisionNs: number; bytesPerClient: number }> {
  const maker = makers[name];
  if (maker === undefined) throw new Error(`no store ${name}`);
  const take = await maker();
  const before = heapBytes();
  let nowMs = 1000;
  for (let i = 0; i < clients; i += 1) {
    const taken = take(clientOf(i), nowMs);
    if (taken instanceof Promise && i % 1000 === 0) await taken;
    nowMs += 0.001;
  }
  await new Promise((resolve) => setImmediate(resolve));
  const bytesPerClient = (heapBytes() - before) / clients;

  // The keys are made before, in blocks, so that their making is not measured.
  const blocks = 40;
  const blockLength = 50_000;
  const times: number[] = [];
  for (let block = 0; block < blocks; block += 1) {
    const keys = Array.from({ length: blockLength }, (_, i) => clientOf(scattered(block * blockLength + i) % clients));
    const begin = process.threadCpuUsage();
    let last: unknown;
    for (const key of keys) {
      nowMs += 0.001;
      last = take(key, nowMs);
    }
    await last;
    const { user, system } = process.threadCpuUsage(begin);
    times.push(((user + system) * 1000) / blockLength);
  }
  const settled = times.slice(blocks / 2).sort((a, b) => a - b);
  return { decisionNs: settled[Math.floor(settled.length / 2)] ?? Number.NaN, bytesPerClient };
}

process.stdout.write(`${JSON.stringify(await measure())}\n`);
process.exit(0);
