// "A web application" of docs/recipes.md, run as it stands there: pages of 151 files, as browsers load them.
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { Agent, request } from "node:https";
import { join } from "node:path";
import { expect, test } from "vitest";
import { WebSocket as Client, type WebSocket, WebSocketServer } from "ws";
import { loadSettings } from "../../src/config/load.ts";
import { configurationWarnings } from "../../src/config/warnings.ts";
import { renderConfigError } from "../../src/config/written.ts";
import { type Cleanup, useCleanup } from "../support/cleanup.ts";
import { startTestGateway } from "../support/gateway.ts";
import { Http2Client } from "../support/http2-client.ts";
import { listen } from "../support/loopback-server.ts";
import { scratchFolder } from "../support/scratch.ts";
import { useTls } from "../support/tls-listener.ts";
import { read } from "./markdown.ts";

const cleanup = useCleanup();
const tls = useTls();

/** Names as bundlers and people write them. */
const odd = ["%5Bslug%5D", "J%C3%BCrgen%20K", "(group)", "a+b@2x", "a;v=1", "~x$", "a%2fb", "..page", "v1"];
const files = Array.from({ length: 151 }, (_, i) => `/assets/${odd[i] ?? "chunk"}-${i}.js?v=${i}`);

/** Pages, files and an API as they are served by slow workers, and an echo by WebSocket. */
async function startApplication(cleanup: Cleanup): Promise<string> {
  const server = createServer((req, res) => {
    const answer = (): void => void res.writeHead(200, { "Content-Type": "text/plain" }).end(`served ${req.url}`);
    if (req.url?.startsWith("/assets/")) setTimeout(answer, 1);
    else answer();
  });
  const sockets = new WebSocketServer({ server });
  sockets.on("connection", (socket: WebSocket) => socket.on("message", (data) => socket.send(`echo ${data}`)));
  const port = await listen(server);
  cleanup(() => {
    for (const socket of sockets.clients) socket.terminate();
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${port}`;
}

async function stage(maxConnections: number) {
  const [, yaml = ""] = /^## A web application\n.*?^```yaml\n(.*?)^```/ms.exec(read("docs/recipes.md")) ?? [];
  const file = join(scratchFolder(cleanup), "c.yaml");
  writeFileSync(file, yaml);
  const loaded = loadSettings({ file, env: {}, cwd: ".", overrides: [] });
  if (!loaded.ok) throw new Error(loaded.errors.map(renderConfigError).join("\n"));
  const { settings } = loaded;
  expect(configurationWarnings(settings)).toEqual([]);
  const { auth, policies, routes, unmatched } = settings;
  const { listen: own, ...listener } = tls().overrides;
  const listen = { ...own, newConnectionsPerPeer: settings.listen.newConnectionsPerPeer };
  const gateway = await startTestGateway({
    upstreamUrl: await startApplication(cleanup),
    overrides: {
      ...listener,
      ...{ listen, auth, policies, routes, unmatched, refusals: settings.refusals },
      ...{ upstream: { maxConnections }, drain: { timeoutMs: 0 } },
    },
  });
  cleanup(() => gateway.close());
  const { ca } = tls();
  const agent = cleanup(new Agent({ ca, servername: "localhost", keepAlive: true, maxSockets: 6 }));
  const ask = (path: string, method = "GET"): Promise<{ status: number; left: string }> =>
    new Promise((resolve, reject) => {
      const target = { agent, host: "127.0.0.1", port: gateway.traffic.port, path, method };
      request(target, (response) => {
        const { statusCode: status = 0, headers } = response;
        response.resume().on("end", () => resolve({ status, left: String(headers["ratelimit-remaining"]) }));
      })
        .on("error", reject)
        .end();
    });
  const overHttp2 = new Http2Client(gateway.traffic.port, ca, cleanup);
  return { ask, ca, gateway, overHttp2 };
}

/** The default, and an application of a few processes. */
test.each([256, 8])("no file of a page is refused, with %i connections to the application", async (maxConnections) => {
  const { ask, overHttp2 } = await stage(maxConnections);
  const loads: ((path: string) => Promise<{ readonly status: number }>)[] = [
    (path) => ask(path),
    (path) => overHttp2.ask({ path }),
  ];
  for (const load of loads) {
    const answers = await Promise.all(["/", ...files].map(load));
    expect(answers.filter(({ status }) => status !== 200)).toEqual([]);
  }
  expect(await ask("/api/me")).toEqual({ status: 200, left: "299" });
});

test("ten logins of an address, whatever they are answered, and its API goes on", async () => {
  const { ask } = await stage(256);
  for (let left = 9; left >= 0; left -= 1) expect((await ask("/login", "POST")).status).toBe(200);
  expect([(await ask("/login", "POST")).status, (await ask("/Login/", "POST")).status]).toEqual([429, 429]);
  expect([(await ask("/login")).status, (await ask("/api/me")).status, (await ask("/")).status]).toEqual([
    200, 200, 200,
  ]);
});

test("a WebSocket outside of the routes costs nothing", async () => {
  const { ask, ca, gateway } = await stage(256);
  const socket = new Client(`wss://localhost:${gateway.traffic.port}/cable`, { ca });
  cleanup(() => socket.terminate());
  await once(socket, "open");
  socket.send("hello");
  expect(String((await once(socket, "message"))[0])).toBe("echo hello");
  expect((await ask("/api/me")).left).toBe("299");
});
