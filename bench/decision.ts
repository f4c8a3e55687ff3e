// Measures one store in a process of its own: what a decision costs, and what a client with one request weighs. Run by
// decisions.ts with the store's name and the number of clients; prints one line of JSON. Headgate is given a key that a
// connection knows, or the text of an address, which it reads within the measured time.
import { randomBytes } from "node:crypto";
import type { Identity } from "../src/core/authentication.ts";
import { type Client, readPeer } from "../src/core/client-address.ts";
import type { AskedRequest } from "../src/core/limiter.ts";
import { NetworkSet } from "../src/core/network-set.ts";
import type { Decision, Policy } from "../src/core/policy.ts";
import { type ParsedRequest, pendingVerdict, type RequestHead } from "../src/core/request-head.ts";
import { PolicyLimiter } from "../src/limits/limiter.ts";
import { CounterTable, createTableMemory } from "../src/limits/table/counter-table.ts";
import { KeyPlacer } from "../src/limits/table/sip-hash.ts";
import { slidingPolicy } from "../test/support/policy.ts";

interface Store {
  take(client: Client, nowMs: number): unknown;
  /** What a connection does with its client once; not measured. */
  know?(client: Client): void;
  /** Memory for what is stored now. Default: by how much the memory of the process grew. */
  bytes?: (() => number) | undefined;
}

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
};

const identity: Identity = {
  ...{ tokenDigest: "0".repeat(64), tokenName: null, subject: null, scopes: [], endsMs: null, claims: new Map() },
};

const makers: Record<string, () => Promise<Store>> = {
  Headgate: async () => ownLimiter(sameFor(1)),
  async "Headgate, from text"() {
    const { take, bytes } = ownLimiter(sameFor(1));
    return { bytes, take: ({ key }, nowMs) => take(readPeer(key, head.peer.rules), nowMs) };
  },
  "Headgate, 8 policies": async () => ownLimiter(sameFor(8)),
  "Headgate, 2 policies": async () => ownLimiter(sameFor(2)),
  "Headgate, one of 2 policies by who, token verified": async () => ownLimiter(byWho, "verified"),
  "Headgate, one of 2 policies by who, token refused": async () => ownLimiter(byWho, "refused"),
  async "rate-limiter-flexible"() {
    const { RateLimiterMemory } = await peer("rate-limiter-flexible");
    const limiter = new RateLimiterMemory({ points: limit, duration: windowMs / 1000 });
    return { take: ({ key }) => limiter.consume(key).catch(() => null) };
  },
  async "express-rate-limit"() {
    const { MemoryStore: Store } = await peer("express-rate-limit");
    const store = new Store();
    store.init({ windowMs });
    return { take: ({ key }) => store.increment(key) };
  },
  async "@fastify/rate-limit"() {
    const { default: LocalStore } = await peer("@fastify/rate-limit/store/LocalStore.js");
    const store = new LocalStore(false, false, clients, windowMs);
    return { take: ({ key }) => store.incr(key, () => {}, windowMs, limit) };
  },
};

function sameFor(policies: number): Policy[] {
  return Array.from({ length: policies }, (_, i) => slidingPolicy({ name: `policy-${i}`, limit: limit + i, windowMs }));
}

const byWho = sameFor(2).map((policy, i): Policy => ({ ...policy, who: i === 0 ? "others" : "verified" }));

/** The whole limiter; each policy has a counter for each client. `token`: what its check says, where that matters. */
function ownLimiter(policies: readonly Policy[], token: "verified" | "refused" | null = null): Store {
  const secret = randomBytes(16);
  const table = new CounterTable(createTableMemory(tableBytes(policies.length)), { secret });
  const placer = new KeyPlacer(secret);
  const request: { -readonly [Key in keyof ParsedRequest]: ParsedRequest[Key] } = { ...pendingVerdict.parsed };
  const asked: { -readonly [Key in keyof AskedRequest]: AskedRequest[Key] } = {
    ...{ parsed: request, head, identity: null, decision: null, nowMs: 0 },
  };
  const limiter = new PolicyLimiter(policies, { table });
  const counted = policies.filter(
    ({ who }) => token === null || who === (token === "verified" ? "verified" : "others"),
  );
  return {
    know: ({ counterKey }) => placer.place(counterKey),
    take({ key, counterKey }, nowMs) {
      request.client = key;
      request.counterKey = counterKey;
      asked.identity = null;
      asked.decision = null;
      asked.nowMs = nowMs;
      asked.decision = limiter.ask(asked, "anonymous") as Decision;
      if (token === null) return asked.decision;
      if (token === "refused") return limiter.ask(asked, "refused");
      asked.identity = identity;
      return limiter.ask(asked, "identified");
    },
    bytes() {
      const { usedBytes, policies: figures } = limiter.counterFigures();
      for (const { policy, keys, coarse, evictedLive } of figures) {
        if (!counted.some(({ name }) => name === policy)) continue;
        // The places of a key may all be taken: with some secrets that happens to one of a million.
        const unlucky = coarse + evictedLive;
        if (unlucky > 1e-5 * clients || keys < clients - unlucky) throw new Error("the table is too small");
      }
      return usedBytes;
    },
  };
}

/** The default, or enough for all clients: a key has a line of 64 bytes, and its share of the directory and the reserve. */
function tableBytes(policies: number): number {
  const mebibyte = 2 ** 20;
  const isDefault = policies === 1 && clients <= 100_000;
  return isDefault ? 32 * mebibyte : Math.ceil((clients * policies * 110) / mebibyte) * mebibyte;
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
  const store = await maker();
  const before = heapBytes();
  let nowMs = 1000;
  for (let i = 0; i < clients; i += 1) {
    const taken = store.take(clientOf(i), nowMs);
    if (taken instanceof Promise && i % 1000 === 0) await taken;
    nowMs += 0.001;
  }
  await new Promise((resolve) => setImmediate(resolve));
  const bytesPerClient = (store.bytes?.() ?? heapBytes() - before) / clients;

  // The clients are made before, in blocks and in the order of their use, so that their making is not measured.
  const blocks = 40;
  const blockLength = 50_000;
  const groupBlocks = 4;
  const times: number[] = [];
  for (let block = 0; block < blocks; block += 1) {
    const asked = Array.from({ length: blockLength }, (_, i) => clientOf(scattered(block * blockLength + i) % clients));
    if (store.know !== undefined) for (const client of asked) store.know(client);
    const begin = process.threadCpuUsage();
    let last: unknown;
    for (const client of asked) {
      nowMs += 0.001;
      last = store.take(client, nowMs);
    }
    await last;
    const { user, system } = process.threadCpuUsage(begin);
    times.push(((user + system) * 1000) / blockLength);
  }
  // The kernel counts CPU time in steps of milliseconds, so several blocks are one measurement.
  const settled = times.slice(blocks / 2);
  const groups = Array.from({ length: settled.length / groupBlocks }, (_, i) =>
    settled.slice(i * groupBlocks, (i + 1) * groupBlocks).reduce((sum, ns) => sum + ns / groupBlocks, 0),
  ).sort((a, b) => a - b);
  return { decisionNs: groups[Math.floor(groups.length / 2)] ?? Number.NaN, bytesPerClient };
}

process.stdout.write(`${JSON.stringify(await measure())}\n`);
process.exit(0);
