// What a start loads: not what the configuration does not need, because that would make the start slower and the process larger;
// but all that a request can need, because loading it for a request stops the traffic meanwhile.
import { once } from "node:events";
import { existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { join } from "node:path";
import { expect, test } from "vitest";
import { call, readToken } from "../admin/api-stage.ts";
import { digestOf } from "../auth/digest.ts";
import { type Cleanup, useCleanup } from "../support/cleanup.ts";
import { eventually } from "../support/eventually.ts";
import { type GatewayProcess, startGatewayProcess } from "../support/gateway-process.ts";
import { scratchFolder } from "../support/scratch.ts";
import { startUpstream } from "../support/upstream.ts";

const cleanup = useCleanup();

/**
 * Writes what has been loaded at each SIGUSR2: Node's own modules, and the files of packages and of ours, of all threads. The module
 * `node:vm` is loaded from the first: the gateway loads it when nothing has been asked for half a second, to collect garbage.
 */
const recorder = (file: string): string => `
  import { registerHooks } from "node:module";
  import { appendFileSync, readFileSync, renameSync, writeFileSync } from "node:fs";
  registerHooks({ load(url, context, next) { appendFileSync("${file}.files", url + "\\n"); return next(url, context); } });
  await import("node:vm");
  process.on("SIGUSR2", () => {
    const files = readFileSync("${file}.files", "utf8").trim().split("\\n");
    writeFileSync("${file}.new", JSON.stringify([...process.moduleLoadList, ...files]));
    renameSync("${file}.new", "${file}");
  });
`;

/** Node's modules by their names, packages as `fastify`, files of ours as `admin/app`. */
function namesOf(loaded: Iterable<string>): Set<string> {
  return new Set(
    [...loaded].map((entry) => {
      const builtin = /^NativeModule (.*)/.exec(entry)?.[1];
      const inPackage = /\/node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(entry)?.[1];
      return builtin ?? inPackage ?? /\/src\/(.*)\.ts$/.exec(entry)?.[1] ?? entry;
    }),
  );
}

const notNeeded = [
  // What an import of node:http would load by its getter.
  "internal/deps/undici/undici",
  // What only the API needs, which this gateway does not have.
  ...["admin/api", "ajv", "@fastify/swagger"],
  ...["undici", "ioredis", "typebox", "@fastify/http-proxy", "typescript"],
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

interface Recorded {
  readonly gateway: GatewayProcess;
  /** What has been loaded so far. */
  loaded(): Promise<ReadonlySet<string>>;
}

async function startRecorded(settings: readonly string[] = []): Promise<Recorded> {
  const upstream = cleanup(await startUpstream());
  const file = join(scratchFolder(cleanup), "loaded.json");
  const preload = `data:text/javascript,${encodeURIComponent(recorder(file))}`;
  const env = { NODE_OPTIONS: `--import ${preload}` };
  const gateway = await startGatewayProcess(cleanup, upstream.url, settings, { env });
  return {
    gateway,
    async loaded() {
      rmSync(file, { force: true });
      gateway.signal("SIGUSR2");
      await eventually("it is written", () => existsSync(file));
      return new Set<string>(JSON.parse(readFileSync(file, "utf8")));
    },
  };
}

async function proxied({ port }: GatewayProcess): Promise<void> {
  expect((await fetch(`http://127.0.0.1:${port}/v2/x`, { headers: { authorization: "Bearer t" } })).status).toBe(200);
}

test("a start and a proxied request load what they need, and nothing else", async () => {
  const { gateway, loaded } = await startRecorded();
  await proxied(gateway);
  const names = namesOf(await loaded());
  // The names are spelled as they are recorded.
  expect([...names]).toEqual(
    expect.arrayContaining(["net", "http", "pino", "yaml", "fastify", "prom-client", "admin/app", "core/clock"]),
  );
  expect(notNeeded.filter((name) => names.has(name))).toEqual([]);
});

const check = { method: "GET", target: "/v2/x", client: "192.0.2.1", headers: {} };
const rule = { client: "192.0.2.2", action: "block", for: "1h" };

test.each([1, 2])(
  "no request to the admin listener loads anything, refused or answered: %i threads",
  async (workers) => {
    const folder = scratchFolder(cleanup);
    const [tokensFile, socketPath] = [join(folder, "tokens"), join(folder, "admin.sock")];
    writeFileSync(tokensFile, `${digestOf("other")} read # other\n${digestOf(readToken)} write # ops\n`);
    const settings = [`admin.tokensFile=${tokensFile}`, `admin.socket=${socketPath}`, `workers=${workers}`];
    const { gateway, loaded } = await startRecorded(settings);
    const token = readToken;
    const ask = async (method: string, path: string, expected: number, given: Parameters<typeof call>[3] = {}) => {
      expect((await call(gateway.adminPort, method, path, { token, ...given })).status, `${method} ${path}`).toBe(
        expected,
      );
    };
    await proxied(gateway);
    const steps: readonly (readonly [string, () => Promise<unknown>])[] = [
      ["a connection", async () => (await connected(cleanup, gateway.adminPort)).destroy()],
      [
        "bytes that are no request",
        async () => once((await connected(cleanup, gateway.adminPort)).end("x\r\n\r\n"), "close"),
      ],
      ["a probe", () => ask("GET", "/livez", 200)],
      ["a scrape", () => ask("GET", "/metrics", 200)],
      [
        "a scrape in OpenMetrics",
        () => ask("GET", "/metrics", 200, { headers: { accept: "application/openmetrics-text" } }),
      ],
      ["no token", () => ask("GET", "/api/status", 401, { token: null })],
      ["a wrong token", () => ask("POST", "/api/reload", 401, { token: "wrong", body: {} })],
      ["another host", () => ask("GET", "/api/status", 421, { headers: { host: "evil.test" } })],
      [
        "a foreign page",
        () => ask("PUT", "/api/rules/a", 403, { headers: { origin: "http://evil.test" }, body: rule }),
      ],
      ["the first call", () => ask("GET", "/api/status", 200)],
      [
        "a call over the socket",
        () => ask("GET", "/api/status", 200, { socketPath, token: null, headers: { host: "localhost" } }),
      ],
      ["a wrong body", () => ask("PUT", "/api/rules/a", 400, { body: { for: 1 } })],
      ["a rule", () => ask("PUT", "/api/rules/a", 201, { body: rule })],
      ["a check", () => ask("POST", "/api/check", 200, { body: check })],
      ["a reload", () => ask("POST", "/api/reload", 200, { body: {} })],
      [
        "reads",
        async () => {
          for (const path of [
            "policies",
            "config",
            "history",
            "policies/history",
            "clients",
            "refusals",
            "rules",
            "openapi.json",
          ]) {
            await ask("GET", `/api/${path}`, 200);
          }
        },
      ],
      ["the console", () => ask("GET", "/console/", 200)],
    ];
    let before = await loaded();
    const late: Record<string, readonly string[]> = {};
    for (const [what, step] of steps) {
      await step();
      const after = await loaded();
      const added = [...after].filter((name) => !before.has(name));
      if (added.length > 0) late[what] = [...namesOf(added)];
      before = after;
    }
    expect(late).toEqual({});
  },
);

async function connected(cleanup: Cleanup, port: number) {
  const socket = cleanup(connect({ port, host: "127.0.0.1" }));
  await once(socket, "connect");
  return socket.resume();
}
