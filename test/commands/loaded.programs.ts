// What a start loads. What the configuration does not need, and what only the admin listener needs, would make each start
// slower and the process larger.
import { existsSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { useCleanup } from "../support/cleanup.ts";
import { eventually } from "../support/eventually.ts";
import { startGatewayProcess } from "../support/gateway-process.ts";
import { scratchFolder } from "../support/scratch.ts";
import { startUpstream } from "../support/upstream.ts";

const cleanup = useCleanup();

/** Writes what has been loaded at each SIGUSR2: Node's own modules, and the files of packages and of ours. */
const recorder = (file: string): string => `
  import { registerHooks } from "node:module";
  import { renameSync, writeFileSync } from "node:fs";
  const files = [];
  registerHooks({ load(url, context, next) { files.push(url); return next(url, context); } });
  process.on("SIGUSR2", () => {
    writeFileSync("${file}.new", JSON.stringify([...process.moduleLoadList, ...files]));
    renameSync("${file}.new", "${file}");
  });
`;

/** Node's modules by their names, packages as `fastify`, files of ours as `admin/app`. */
function namesOf(loaded: readonly string[]): Set<string> {
  return new Set(
    loaded.map((entry) => {
      const builtin = /^NativeModule (.*)/.exec(entry)?.[1];
      const inPackage = /\/node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(entry)?.[1];
      return builtin ?? inPackage ?? /\/src\/(.*)\.ts$/.exec(entry)?.[1] ?? entry;
    }),
  );
}

const onlyForAdmin = ["http", "fastify", "ajv", "find-my-way", "admin/app", "prom-client", "telemetry/process-metrics"];

const notNeeded = [
  // Of Node: what an import of node:http would load by its getter, and what TLS and HTTP/2 need.
  ...["internal/deps/undici/undici", "tls", "http2", "https", "zlib"],
  ...["undici", "ioredis", "@fastify/http-proxy", "typescript"],
  ...["config/tls-files", "listener/tls-handshakes", "transport/http2/http2-connection", "upstream/tls-carrier"],
  ...["ext-auth/http/http-listener", "ext-auth/grpc/start", "limits/store/store", "limits/store/redis/link"],
  ...[
    "gateway/snapshots",
    "gateway/threads/workers",
    "finance-backend/server",
    "fastify/index",
    "commands/demo/demo",
    "commands/check",
    "commands/help",
    "commands/completions",
    "commands/admin/run",
    "commands/admin/invocation",
  ],
];

test("a start and a proxied request load what they need; the first scrape loads the rest", async () => {
  const upstream = await startUpstream();
  cleanup(() => upstream.close());
  const file = join(scratchFolder(cleanup), "loaded.json");
  const preload = `data:text/javascript,${encodeURIComponent(recorder(file))}`;
  const env = { NODE_OPTIONS: `--import ${preload}` };
  const gateway = await startGatewayProcess(cleanup, upstream.url, [], { env });
  const loaded = async (): Promise<Set<string>> => {
    rmSync(file, { force: true });
    gateway.signal("SIGUSR2");
    await eventually("it is written", () => existsSync(file));
    return namesOf(JSON.parse(readFileSync(file, "utf8")));
  };
  const headers = { authorization: "Bearer t" };
  expect((await fetch(`http://127.0.0.1:${gateway.port}/v2/x`, { headers })).status).toBe(200);
  const first = await loaded();
  // The names are spelled as they are recorded.
  expect([...first]).toEqual(expect.arrayContaining(["net", "pino", "yaml", "admin/server", "core/clock"]));
  expect([...onlyForAdmin, ...notNeeded].filter((name) => first.has(name))).toEqual([]);
  await gateway.figures();
  const then = await loaded();
  expect(onlyForAdmin.filter((name) => !then.has(name))).toEqual([]);
});
