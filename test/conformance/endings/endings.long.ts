// However connections, requests, tunnels and checks end, nothing is left of them in the gateway's process: no handle, no
// timer, no memory, no place that is still counted. Without HEADGATE_ENDINGS the endings of a carrier are mixed and
// measured together; with a number, each ending is tried that often by itself, and has a line in the report.
import { afterAll, beforeAll, expect, test } from "vitest";
import { Authority, type Issued } from "../../support/certificates.ts";
import { type Cleanup, cleanupOf } from "../../support/cleanup.ts";
import type { Overrides } from "../../support/gateway.ts";
import { deadUrl, unacceptingAddress } from "../../support/unavailable.ts";
import { type Ending, endings, type Occupant, occupants, occupy } from "./endings.ts";
import type { Counts, Memory } from "./gateway-child.ts";
import { type GatewayStage, leftOver, type StageOptions, startStage } from "./stage.ts";

const each = Number(process.env["HEADGATE_ENDINGS"] ?? 0);
/** A part of the names of endings. */
const only = process.env["HEADGATE_ENDING"] ?? "";
/** Measured are seven of each: one more than of what belongs to no client may come, so a single ending that leaks is seen. */
const mixedEach = 10;
/** Code is compiled and tables have grown after this part of the runs. */
const firstPart = each > 0 ? 0.1 : 0.3;
const atOnce = each > 0 ? 100 : 48;
/** With more, the bytes that nobody reads fill the memory that Linux gives to TCP (net.ipv4.tcp_mem): it resets connections then. */
const unreadAtOnce = 24;
/** A busy machine lets so many of them run into a timeout before what they wait for. */
const missed = 0.1;
/** A carrier's endings that each keep a place would fill the others. */
const bound = atOnce + 16;

/** For each ending, and however few there are: the heap and the allocator move by themselves. */
const allowedBytes: Readonly<Memory> = { heap: 64, external: 64, arrayBuffers: 16, rss: 2_000 };
/** A process that has just started grows by what the allocator keeps, also if all is given back. */
const startedBytes = each > 0 ? 2e8 : 8e7;
const alwaysAllowedBytes: Readonly<Memory> = { heap: 1e6, external: 2e6, arrayBuffers: 3e5, rss: startedBytes };

const open: (() => unknown)[] = [];
let authority: Authority;
let certificate: Issued;
beforeAll(() => {
  authority = new Authority((close) => void open.push(close));
  certificate = authority.issue();
});
afterAll(async () => {
  for (const close of open) await close();
});

const tls = (): Overrides => {
  const { certFile: cert, keyFile: key } = certificate;
  return { listen: { tls: { cert, key, clientCa: null, http2: true } } };
};
const small = { maxConnections: 16, maxConnectionsPerPeer: 8, maxRequestsPerConnection: 2 };

interface Group {
  readonly name: string;
  readonly table: readonly Ending[];
  readonly occupant?: Occupant;
  /** Clients at the same time, all from one address. */
  readonly clients?: number;
  readonly options?: (cleanup: Cleanup) => Partial<StageOptions> | Promise<Partial<StageOptions>>;
}

const overTls = (): Partial<StageOptions> => ({ overrides: tls() });

const groups: readonly Group[] = [
  { name: "HTTP/1.1", table: endings.http1, occupant: occupants.http1 },
  {
    name: "HTTP/1.1 over TLS",
    table: endings.http1OverTls,
    occupant: occupants.http1OverTls,
    options: overTls,
  },
  { name: "HTTP/2", table: endings.http2, occupant: occupants.http2, options: overTls },
  { name: "HTTP/2 against the protocol", table: endings.http2Violations, occupant: occupants.http2, options: overTls },
  { name: "tunnels", table: endings.tunnels, occupant: occupants.tunnels },
  { name: "tunnels over TLS", table: endings.tunnelsOverTls, occupant: occupants.tunnelsOverTls, options: overTls },
  { name: "checks over HTTP", table: endings.checks, occupant: occupants.checks },
  { name: "checks over HTTP in chunks", table: endings.chunkedChecks, occupant: occupants.chunkedChecks },
  { name: "checks over gRPC", table: endings.calls, occupant: occupants.calls },
  { name: "checks over gRPC against the protocol", table: endings.callViolations, occupant: occupants.calls },
  // One address gets half of the 64 places there.
  { name: "the admin listener", table: endings.admin, clients: 16 },
  { name: "TLS handshakes", table: endings.handshakes, occupant: occupants.http1OverTls, options: overTls },
  {
    name: "PROXY headers",
    table: endings.proxyHeaders,
    occupant: occupants.proxied,
    options: () => ({ overrides: { listen: { proxyProtocol: true } } }),
  },
  { name: "bounds on connections", table: endings.bounds, options: () => ({ overrides: { listen: small } }) },
  {
    name: "bounds on connections over TLS",
    table: endings.boundsOverTls,
    options: () => ({ overrides: { listen: { ...small, ...tls().listen } } }),
  },
  {
    name: "an upstream over TLS",
    table: endings.upstreamOverTls,
    occupant: occupants.http1,
    options: () => ({ isUpstreamTls: true }),
  },
  { name: "an upstream that refuses", table: endings.unavailable, options: () => ({ upstreamUrl: () => deadUrl }) },
  {
    name: "an upstream that does not accept",
    table: endings.unavailable,
    options: async (cleanup) => {
      const address = await unacceptingAddress(cleanup);
      return { upstreamUrl: () => address };
    },
  },
  {
    name: "an upstream that is silent in the TLS handshake",
    table: endings.unavailable,
    options: () => ({ upstreamUrl: (port) => `https://localhost:${port}` }),
  },
  {
    name: "an upstream whose certificate is not trusted",
    table: endings.unavailable,
    options: (cleanup) => ({ isUpstreamTls: true, authority: new Authority(cleanup) }),
  },
  { name: "reloads", table: endings.reloads, occupant: occupants.http1 },
  { name: "drains", table: endings.drains, options: () => drainingSoon() },
  { name: "drains over TLS", table: endings.drainsOverTls, options: () => drainingSoon(tls()) },
];

function drainingSoon(overrides: Overrides = {}): Partial<StageOptions> {
  return { overrides: { ...overrides, drain: { delayMs: 0, timeoutMs: 100 } } };
}

test.concurrent.for(groups)(
  "$name",
  each > 0 ? { timeout: 24 * 3_600_000 } : {},
  async ({ name, table, occupant, clients: together = atOnce, options }, context) => {
    const cleanup = cleanupOf(context);
    const chosen = table.filter((ending) => ending.name.includes(only));
    if (chosen.length === 0) return;
    const own = await options?.(cleanup);
    const stage = await startStage(cleanup, { bound, authority, certificate, ...own });
    const problems: string[] = [];
    await run(stage, chosen, { times: 2, together }, problems);
    let { counts } = await stage.rest();
    for (const part of each > 0 ? chosen.map((ending) => [ending]) : [chosen]) {
      // Those that stay wait most of the time.
      const isUnread = part.every(({ name: ending }) => ending.includes("not read") && !ending.endsWith("stays"));
      const clientsAtOnce = Math.min(together, isUnread ? unreadAtOnce : together);
      const runPart = (times: number) => run(stage, part, { times, together: clientsAtOnce }, problems);
      const times = each || mixedEach;
      const begin = Math.ceil(times * firstPart);
      await runPart(begin);
      let before = await stage.rest(counts);
      // A pool that has a bound may fill in the first measured runs. What leaks grows in the second as well.
      for (const isSecond of [false, true]) {
        const clients = await runPart(times - begin);
        const after = await stage.rest(counts);
        const what = `${name} | ${part.length === 1 ? part[0]?.name : `${part.length} endings`} | ${clients}`;
        const memory = grown(before.memory, after.memory, clients);
        process.stdout.write(`${what} | ${moreOf(counts, after.counts)} | ${memory}\n`);
        const left = leftOver(after.counts, counts);
        const grownKinds = grownTooMuch(before.memory, after.memory, clients);
        ({ counts } = after);
        before = after;
        if (left.length > 0 || (isSecond && grownKinds.length > 0))
          problems.push(`${what}: ${[...left, ...grownKinds].join(", ")}`);
        if (left.length > 0 || grownKinds.length === 0) break;
      }
    }
    expect(problems).toEqual([]);
    if (occupant !== undefined) await expectRoom(stage, occupant);
  },
);

function grownTooMuch(before: Memory, after: Memory, clients: number): string[] {
  const kinds = Object.keys(allowedBytes) as (keyof Memory)[];
  const isTooMuch = (kind: keyof Memory): boolean =>
    after[kind] - before[kind] > alwaysAllowedBytes[kind] + clients * allowedBytes[kind];
  return kinds.filter(isTooMuch).map((kind) => `${after[kind] - before[kind]} bytes of ${kind}`);
}

/**
 * Runs each ending for so many clients, in turn. Returns the number of clients. If too many did not come so far, these are tried
 * again, fewer at the same time, because all that are under way while a machine stands still run into a timeout. Adds a problem
 * if too many of them are left.
 */
async function run(
  stage: GatewayStage,
  table: readonly Ending[],
  { times, together }: { readonly times: number; readonly together: number },
  problems: string[],
): Promise<number> {
  const order: Ending[] = [];
  for (let done = 0; done < times; done += 1) {
    order.push(...table.filter(({ clients = 1 }) => done % clients === 0));
  }
  const isAlone = table.some(({ clients = 1 }) => clients > 1);
  const allowed = order.length * missed;
  let failures: { readonly ending: Ending; readonly error: unknown }[] = [];
  let clients = 0;
  let left: readonly Ending[] = order;
  for (let tries = 0; tries < 3 && left.length > allowed; tries += 1) {
    failures = [];
    if (tries > 0) await stage.rest();
    const next = left.values();
    const runSome = async (): Promise<void> => {
      for (const ending of next) {
        clients += ending.clients ?? 1;
        await ending.run(stage).catch((error: unknown) => void failures.push({ ending, error }));
      }
    };
    await Promise.all(Array.from({ length: isAlone ? 1 : Math.ceil(together / 4 ** tries) }, runSome));
    left = failures.map(({ ending }) => ending);
  }
  if (left.length > allowed) {
    const some = failures.slice(0, 5).map(({ ending, error }) => `${ending.name}: ${error}`);
    problems.push(`${left.length} missed: ${some.join("\n")}`);
  }
  return clients;
}

/** Whoever comes gets what a bound allows. What an ending keeps, it keeps at each try. */
async function expectRoom(stage: GatewayStage, occupant: Occupant): Promise<void> {
  let reached = 0;
  for (let tries = 0; tries < 3 && reached <= bound * (1 - missed); tries += 1) {
    await stage.rest();
    reached = await occupy(stage, occupant, bound);
  }
  expect(reached).toBeGreaterThan(bound * (1 - missed));
}

function moreOf(before: Counts, after: Counts): string {
  const kinds = Object.keys(after) as (keyof Counts)[];
  return kinds.map((kind) => `${kind} ${signed(after[kind] - before[kind])}`).join(", ");
}

/** The size at the end, and the growth for each client. */
function grown(before: Memory, after: Memory, clients: number): string {
  const kinds = Object.keys(after) as (keyof Memory)[];
  const each = (kind: keyof Memory): string => signed(Math.round((after[kind] - before[kind]) / clients));
  return kinds.map((kind) => `${kind} ${(after[kind] / 1e6).toFixed(1)} MB, ${each(kind)} B each`).join("; ");
}

const signed = (value: number): string => `${value < 0 ? "" : "+"}${value}`;
