// Many requests over many connections, a third of which their clients abort at random points: in a handshake, in a head, in a
// body, before or in the middle of a response, with a FIN or a reset, or of HTTP/2 one stream alone. Afterwards nothing is left in
// the gateway's process: no socket, no timer, no memory, and no connection that is still counted; and the counts are exact. Over
// 1,000 connections for each protocol, 5,000 in test:nightly, or as many as HEADGATE_CHURN says: with 20,000 of them, 200,000
// requests.
import { fork } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:http";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { useCleanup } from "../../support/cleanup.ts";
import { eventually } from "../../support/eventually.ts";
import type { ChildStart, OpenThings } from "../../support/gateway-child.ts";
import { listen } from "../../support/loopback-server.ts";
import { metric } from "../../support/metrics.ts";
import { slidingPolicy } from "../../support/policy.ts";
import { seededRandom } from "../../support/random.ts";
import { fifth } from "../../support/runs.ts";
import { useTls } from "../../support/tls-listener.ts";
import { type Churned, churn, type Protocol } from "./churn.ts";

const cleanup = useCleanup();
const withTls = useTls();
const connections = Number(process.env["HEADGATE_CHURN"] ?? fifth(5_000));
const warmUps = 1_000;
/** Fewer than there are, so that some requests are refused. */
const limit = Math.ceil(8 * (connections + warmUps));
const largeBytes = 200_000;

async function startUpstream(): Promise<{ readonly url: string; readonly hits: () => number }> {
  let hits = 0;
  const server = createServer((req, res) => {
    hits += 1;
    req.resume();
    const body = Buffer.alloc(req.url === "/v2/large" ? largeBytes : 100, "x");
    req.on("end", () => res.end(body));
  });
  server.keepAliveTimeout = 60_000;
  cleanup(() => server.closeAllConnections());
  cleanup(() => server.close());
  return { url: `http://127.0.0.1:${await listen(server)}`, hits: () => hits };
}

async function startChild(upstreamUrl: string, overrides: object, reads: "shared" | "streams") {
  const entry = fileURLToPath(new URL("../../support/gateway-child.ts", import.meta.url));
  const child = fork(entry, [upstreamUrl, JSON.stringify(overrides)], {
    execArgv: ["--expose-gc"],
    env: { ...process.env, HEADGATE_TEST_READS: reads },
  });
  cleanup(() => child.kill("SIGKILL"));
  const exited = once(child, "exit").then(() => Promise.reject(new Error("the gateway did not start")));
  const [start] = (await Promise.race([once(child, "message"), exited])) as [ChildStart];
  return {
    ...start,
    async openThings(): Promise<OpenThings> {
      child.send("openThings");
      const [things] = (await once(child, "message")) as [OpenThings];
      return things;
    },
  };
}

type Child = Awaited<ReturnType<typeof startChild>>;

/** What is open when the clients and their requests are gone. The connections to the upstream stay. */
async function rest(gateway: Child): Promise<OpenThings> {
  const isZero = async (name: string) => (await metric(gateway, name)) === 0;
  await eventually("no client is connected", () => isZero("headgate_client_connections"), 10_000);
  await eventually("no request", () => isZero('headgate_upstream_connections{state="active"}'), 10_000);
  const idle = await metric(gateway, 'headgate_upstream_connections{state="idle"}');
  const { resources, heapBytes } = await gateway.openThings();
  const { TCPSocketWrap: sockets = 0, ...others } = resources;
  // A few are those of the scrapes.
  expect(sockets - idle).toBeLessThanOrEqual(4);
  return { resources: others, heapBytes };
}

/** The sum over all samples of a family whose labels match. */
async function sum(gateway: Child, family: string, labels = ""): Promise<number> {
  const text = await (await fetch(`${gateway.adminUrl}/metrics`)).text();
  const samples = text.split("\n").filter((sample) => sample.startsWith(`${family}{`) && sample.includes(labels));
  return samples.reduce((total, sample) => total + Number(sample.slice(sample.lastIndexOf(" "))), 0);
}

/** Of a request that its client aborted it is not known whether the gateway has read it. */
async function expectCounts(gateway: Child, { ok, refused, aborted }: Churned, hits: number): Promise<number> {
  const admitted = await sum(gateway, "headgate_decisions_total", 'outcome="admitted"');
  const throttled = await sum(gateway, "headgate_decisions_total", 'outcome="throttled"');
  expect(admitted).toBe(limit);
  expect(await sum(gateway, "headgate_requests_total")).toBe(admitted + throttled);
  for (const [counted, got] of [
    [admitted, ok],
    [throttled, refused],
  ] as const) {
    expect(counted).toBeGreaterThanOrEqual(got);
    expect(counted).toBeLessThanOrEqual(got + aborted);
  }
  expect(admitted + throttled).toBeLessThanOrEqual(ok + refused + aborted);
  // One whose client has left may not have been sent.
  expect(hits).toBeLessThanOrEqual(admitted);
  return admitted + throttled;
}

test.for<[protocol: Protocol, reads: "shared" | "streams"]>([
  ["HTTP/1.1", "shared"],
  ["HTTP/1.1", "streams"],
  ["HTTP/1.1 over TLS", "shared"],
  ["HTTP/2", "shared"],
])(
  `nothing is left of ${connections} connections of %s, read as %s, and all is counted`,
  { timeout: 3_600_000 },
  async ([protocol, reads], { annotate }) => {
    const { ca, overrides } = withTls({ policies: [slidingPolicy({ limit, windowMs: 3_600_000 })] });
    const { tls, ...listen } = overrides.listen ?? {};
    const upstream = await startUpstream();
    const plain = { ...overrides, listen };
    const gateway = await startChild(
      upstream.url,
      protocol === "HTTP/1.1" ? plain : { ...overrides, listen: { tls } },
      reads,
    );
    expect(await metric(gateway, "headgate_shared_reads")).toBe(reads === "shared" ? 1 : 0);
    const random = seededRandom(15);
    // Code is compiled, and the memory of connections to the upstream is there.
    const warmedUp = await churn(protocol, gateway.port, ca, warmUps, random);
    const before = await rest(gateway);
    const churned = await churn(protocol, gateway.port, ca, connections, random);
    expect(churned.sent).toBeGreaterThan(9 * connections);
    const after = await rest(gateway);
    for (const [kind, count] of Object.entries(after.resources)) {
      // Timers of the process itself come and go.
      expect(count - (before.resources[kind] ?? 0), kind).toBeLessThanOrEqual(2);
    }
    // 100 bytes for each of 20,000 connections would be 2 MB.
    const grownBytes = after.heapBytes - before.heapBytes;
    expect(grownBytes).toBeLessThan(1_500_000);
    const all = {
      sent: warmedUp.sent + churned.sent,
      ok: warmedUp.ok + churned.ok,
      refused: warmedUp.refused + churned.refused,
      aborted: warmedUp.aborted + churned.aborted,
    };
    const counted = await expectCounts(gateway, all, upstream.hits());
    await annotate(JSON.stringify({ ...all, counted, grownBytes, resources: after.resources }));
  },
);
