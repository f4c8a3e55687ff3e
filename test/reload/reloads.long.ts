// Reloads under load, 1,000 in test:nightly, a third of them of files that are wrong: no request fails, no connection is closed, and no
// count is lost. The clients speak HTTP/1.1 by both parsers, HTTP/2 and WebSocket over TLS.
import { copyFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { WebSocket } from "ws";
import { settingsSource } from "../../src/commands/load-config.ts";
import { testIo } from "../commands/test-io.ts";
import { Authority } from "../support/certificates.ts";
import { useCleanup } from "../support/cleanup.ts";
import { eventually, within } from "../support/eventually.ts";
import { startTestGateway } from "../support/gateway.ts";
import { Http2Client } from "../support/http2-client.ts";
import { metric, upstreamConnections } from "../support/metrics.ts";
import { valuesOf } from "../support/raw-client.ts";
import { RawConnection } from "../support/raw-connection.ts";
import { fifth } from "../support/runs.ts";
import { scratchFolder } from "../support/scratch.ts";
import { request } from "../support/stage.ts";
import { startUpstream } from "../support/upstream.ts";
import { startWebSocketUpstream } from "../support/web-sockets.ts";

const cleanup = useCleanup();
const reloads = fifth(1_000);
const limits = [900_000, 1_000_000] as const;
const slots = [500, 600] as const;

const wrong = [
  "routes: [v2]\n",
  "",
  "listen: {\n",
  "no such key: 1\n",
  "auth: { mode: tokens, tokensFile: missing }\n",
];

/** Differs from the ones before and after it in nearly everything that a reload can change. */
function variant(i: number, upstreams: readonly string[], files: { cert: string; key: string }): string {
  const pick = <T>(values: readonly T[]): T => values[i % values.length] as T;
  return [
    `listen: { maxRequestsPerConnection: 1000000000, maxConnectionsPerPeer: ${pick([100, 200, 300])}, tls: ${JSON.stringify(files)} }`,
    "policies:",
    `  - { name: per-ip, limit: ${pick(limits)}, window: ${pick(["1h", "2h"])} }`,
    `  - { name: at-once, key: [], concurrency: ${pick(slots)} }`,
    `  - { name: daily, limit: ${pick([950_000, 960_000])}, per: ${pick(["day", "month"])} }`,
    `enforcement: ${pick(["shadow", "on", "on"])}`,
    `routes: ${pick(["[/v1/, /v2/]", "[/v2/]", "[/v2/, /v3/]"])}`,
    `fields: ${pick(["[standard]", "[standard, legacy]", "[standard, structured]"])}`,
    `auth: { mode: ${pick(["presence", "off"])}, realm: ${pick(["one", "two"])} }`,
    `clientAddress: { trustedProxies: ${pick(["[]", "[192.0.2.1]"])} }`,
    // A machine that stands still may do so for longer than the default of the timeout.
    `upstream: { url: ${pick(upstreams)}, maxConnections: ${pick([64, 128])}, connectTimeout: 30s }`,
    `refusals: { perSecond: ${pick([50, 60])} }`,
    `timeouts: { head: ${pick(["10s", "11s"])}, body: ${pick(["60s", "61s"])}, keepAlive: ${pick(["65s", "66s"])} }`,
    `log: { access: ${pick([true, false])}, level: ${pick(["info", "warn"])} }`,
    "reload: { watch: false }",
    "",
  ].join("\n");
}

test(`${reloads} reloads under load fail no request, close no connection and lose no count`, async () => {
  const authority = new Authority(cleanup);
  const folder = scratchFolder(cleanup);
  const files = { cert: join(folder, "cert.pem"), key: join(folder, "key.pem") };
  const renewCertificate = (): void => {
    const { certFile, keyFile } = authority.issue();
    copyFileSync(certFile, files.cert);
    copyFileSync(keyFile, files.key);
  };
  renewCertificate();
  const http = await Promise.all([startUpstream(), startUpstream()]);
  for (const { close } of http) cleanup(close);
  const echo = await startWebSocketUpstream(cleanup, (socket) => socket.on("message", (data) => socket.send(data)));
  const upstreams = http.map(({ url }) => url);

  const path = join(folder, "headgate.yaml");
  const write = (yaml: string): void => {
    writeFileSync(`${path}.new`, yaml);
    renameSync(`${path}.new`, path);
  };
  const overrides = [
    { path: ["listen", "host"], text: "127.0.0.1", at: { kind: "default" } as const },
    ...["listen", "admin"].map((name) => ({ path: [name, "port"], text: "0", at: { kind: "default" } as const })),
  ];
  const source = settingsSource({ file: path, overrides }, path, testIo({ cwd: folder }));
  // Tunnels are opened first, while the upstream is the one that echoes.
  write(variant(0, [`http://127.0.0.1:${echo.port}`], files));
  const loaded = source.load();
  if (!loaded.ok) throw new Error(loaded.errors.join());
  const gateway = await startTestGateway({ upstreamUrl: upstreams[0] ?? "", overrides: loaded.settings, source });
  cleanup(() => gateway.close());
  const { port } = gateway.traffic;

  const failures: string[] = [];
  let requests = 0;
  let isOver = false;
  const fail = (what: string): void => void (isOver || failures.push(what));
  const loop = async (what: string, ask: () => Promise<number>): Promise<void> => {
    while (!isOver) {
      const status = await ask().catch((error: unknown) => {
        fail(`${what}: ${String(error)}`);
        isOver = true;
        return 0;
      });
      requests += Number(status === 200);
      if (status !== 200) fail(`${what}: ${status}`);
    }
  };
  const connect = (): RawConnection => {
    const connection = cleanup(new RawConnection(port, { tls: { ca: authority.cert } }));
    void connection.closed.then((how) => fail(`a connection was closed: ${how}`));
    return connection;
  };

  const tunnels = await Promise.all(
    [0, 1].map(async () => {
      const tunnel = new WebSocket(`wss://localhost:${port}/v2/live`, {
        ca: authority.cert,
        headers: { authorization: "Bearer secret-token" },
      });
      cleanup(() => tunnel.terminate());
      await new Promise((resolve, reject) => tunnel.once("open", resolve).once("error", reject));
      tunnel.once("close", () => fail("a tunnel was closed"));
      return tunnel;
    }),
  );
  const echoed = (tunnel: WebSocket): Promise<number> =>
    within(
      "an echo",
      new Promise((resolve) => {
        tunnel.once("message", () => resolve(200));
        tunnel.send("x");
      }),
    );
  write(variant(0, upstreams, files));
  expect(await gateway.reloadFromSource("signal")).toMatchObject({ ok: true });

  const simple = Array.from({ length: 8 }, connect);
  const byNode = Array.from({ length: 4 }, connect);
  const http2 = [0, 1].map(() => new Http2Client(port, authority.cert, cleanup));
  for (const { session } of http2) session.once("close", () => fail("an HTTP/2 connection was closed"));
  const chunked = request("/v2/x", {
    method: "POST",
    fields: "Transfer-Encoding: chunked\r\n",
    body: "1\r\nx\r\n0\r\n\r\n",
  });
  let echoes = 0;
  const load = [
    ...simple.map((client) =>
      loop("simple", async () => {
        return (await client.ask(request("/v2/x"))).status;
      }),
    ),
    ...byNode.map((client) =>
      loop("by Node", async () => {
        return (await client.ask(chunked)).status;
      }),
    ),
    ...http2.map((client) => loop("HTTP/2", async () => (await client.ask()).status)),
    ...tunnels.map((tunnel) =>
      loop("tunnel", async () => {
        echoes += 1;
        return echoed(tunnel);
      }),
    ),
  ];

  let failed = 0;
  for (let i = 1; i <= reloads && failures.length === 0; i += 1) {
    const isWrong = i % 3 === 0;
    write(isWrong ? (wrong[(i / 3) % wrong.length] ?? "") : variant(i, upstreams, files));
    if (i % 50 === 0) renewCertificate();
    const { ok, restart } = await gateway.reloadFromSource("signal");
    failed += Number(!ok);
    expect([ok, restart]).toEqual([!isWrong, []]);
    // Time for a few requests between two reloads.
    await new Promise((resolve) => setImmediate(resolve));
  }
  write(variant(2, upstreams, files));
  expect(await gateway.reloadFromSource("signal")).toMatchObject({ ok: true });
  isOver = true;
  await Promise.all(load);
  expect(failures).toEqual([]);
  expect(failed).toBe(Math.floor(reloads / 3));

  // Of the loop's 200s the echoes were none of requests; each tunnel was one.
  const sent = requests - echoes + tunnels.length;
  expect(sent).toBeGreaterThan(reloads);
  const { rawHeaders } = await connect().ask(request("/v2/x"));
  expect(valuesOf(rawHeaders, "RateLimit-Limit")).toEqual([`${slots[0]}`]);
  const [quotas = ""] = valuesOf(rawHeaders, "RateLimit");
  // The tunnels hold a slot each, and so does this request.
  expect(quotas).toContain(`"per-ip";r=${limits[0] - sent - 1};t=`);
  expect(quotas).toContain(`"at-once";r=${slots[0] - tunnels.length - 1}`);
  expect(await metric(gateway, 'headgate_decisions_total{policy="per-ip",outcome="admitted"}')).toBe(sent + 1);
  expect(await metric(gateway, 'headgate_tunnels{state="open"}')).toBe(2);
  await eventually("no connection of an old upstream is left", async () => {
    const { active, waiting } = await upstreamConnections(gateway);
    return active === 0 && waiting === 0;
  });
});
