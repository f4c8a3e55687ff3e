// Counts the files of src that one warm request executes: what somebody has to read to follow it. Four requests: a GET that
// one policy admits in memory, the same with a store, a 429 over HTTP/2, and a reload. A file counts if one of its functions
// runs each time in three tries. Usage: npm run bench:files [-- --list]
import { once } from "node:events";
import { connect as connectHttp2 } from "node:http2";
import { Session } from "node:inspector/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { Authority } from "../test/support/certificates.ts";
import { type Overrides, startTestGateway, type TestGateway, testSettings } from "../test/support/gateway.ts";
import { RawConnection } from "../test/support/raw-connection.ts";
import { startRedis } from "../test/support/redis-servers.ts";
import { sharedCounters } from "../test/support/shared-settings.ts";
import { request } from "../test/support/stage.ts";
import { startUpstream } from "../test/support/upstream.ts";

const src = `file://${join(import.meta.dirname, "..", "src")}/`;
const warmRequests = 300;
const tries = 3;

const cleanups: (() => unknown)[] = [];
const upstream = await startUpstream();
cleanups.push(() => upstream.close());
const session = new Session();
session.connect();
await session.post("Profiler.enable");
await session.post("Profiler.startPreciseCoverage", { callCount: true, detailed: false });

const unlimited = testSettings(upstream.url).policies.map((policy) => ({ ...policy, limit: 100_000 }));
await report("a GET in memory", await served({ policies: unlimited }), overHttp1);
const redis = await startRedis();
cleanups.push(() => redis.stop());
const counters = sharedCounters(redis.port);
await report("a GET with a store", await served({ counters, policies: unlimited }), overHttp1);
const authority = new Authority((close) => void cleanups.push(close));
const { certFile: cert, keyFile: key } = authority.issue();
const tls = { cert, key, clientCa: null, http2: true };
await report("a 429 over HTTP/2", await served({ listen: { ...testSettings("").listen, port: 0, tls } }), overHttp2);
await report("a reload", await served({ policies: unlimited }), async (gateway) => {
  const settings = testSettings(upstream.url);
  let limit = 1_000;
  return async () => {
    limit += 1;
    const policies = unlimited.map((policy) => ({ ...policy, limit }));
    await gateway.reload({ ...settings, policies });
  };
});
for (const close of cleanups.reverse()) await close();
session.disconnect();

type Ask = () => Promise<unknown>;

async function served(overrides: Overrides): Promise<TestGateway> {
  const gateway = await startTestGateway({ upstreamUrl: upstream.url, overrides: overrides });
  cleanups.push(() => gateway.close());
  return gateway;
}

async function overHttp1(gateway: TestGateway): Promise<Ask> {
  const connection = new RawConnection(gateway.traffic.port);
  cleanups.push(() => connection.destroy());
  return async () => {
    connection.write(request("/v2/x"));
    await connection.read();
  };
}

async function overHttp2(gateway: TestGateway): Promise<Ask> {
  const client = connectHttp2(`https://localhost:${gateway.traffic.port}`, { rejectUnauthorized: false });
  cleanups.push(() => client.destroy());
  return async () => {
    const stream = client.request({ ":path": "/v2/x", authorization: "Bearer x" });
    stream.resume();
    await once(stream, "close");
  };
}

async function report(
  what: string,
  gateway: TestGateway,
  begin: (gateway: TestGateway) => Promise<Ask>,
): Promise<void> {
  const ask = await begin(gateway);
  for (let i = 0; i < warmRequests; i += 1) await ask();
  let common: string[] | null = null;
  for (let i = 0; i < tries; i += 1) {
    await sleep(50);
    await executed();
    await ask();
    const files = await executed();
    common = common === null ? [...files].sort() : common.filter((file) => files.has(file));
  }
  const files = common ?? [];
  process.stdout.write(`${what.padEnd(20)} ${String(files.length).padStart(3)} files\n`);
  if (process.argv.includes("--list")) process.stdout.write(`${files.map((file) => `  ${file}\n`).join("")}`);
}

/** The files of which a function ran since this was called last. */
async function executed(): Promise<Set<string>> {
  const { result } = await session.post("Profiler.takePreciseCoverage");
  const ours = result.filter(({ url }) => url.startsWith(src));
  const ran = ours.filter(({ functions }) => functions.some(({ ranges }) => (ranges[0]?.count ?? 0) > 0));
  return new Set(ran.map(({ url }) => url.slice(src.length)));
}
