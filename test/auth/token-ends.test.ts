// A token that ends is refused from that second on, and what is open with it ends then.

import { writeFileSync } from "node:fs";
import { createServer, type Socket } from "node:net";
import { join } from "node:path";
import { expect, test, vi } from "vitest";
import { writtenEnd } from "../../src/auth/tokens-file.ts";
import { useCleanup } from "../support/cleanup.ts";
import { FakeClock } from "../support/clock.ts";
import { eventually, inFewTurns, turns } from "../support/eventually.ts";
import { startTestGateway } from "../support/gateway.ts";
import { listen } from "../support/loopback-server.ts";
import { metric } from "../support/metrics.ts";
import { RawConnection } from "../support/raw-connection.ts";
import { scratchFolder } from "../support/scratch.ts";
import { holdTimers } from "../support/timers.ts";
import { useTls } from "../support/tls-listener.ts";
import { stageTokens } from "./carriers.ts";
import { digestOf } from "./digest.ts";

const cleanup = useCleanup();
const tls = useTls();

test("a token is refused from the instant of its end on, on each carrier, without a change of the file", async () => {
  const clock = new FakeClock();
  const endsMs = Math.ceil(clock.wallMs() / 1000) * 1000 + 60_000;
  const { carriers } = await stageTokens(cleanup, {
    ...{ tls: tls(), clock, withPlugin: true },
    yaml: "auth: { mode: tokens, tokensFile: tokens.txt }\n",
    tokens: [`${digestOf("good")} expires=${writtenEnd(endsMs)} # alice`],
  });
  const ask = () => Promise.all(carriers.map(({ ask }, i) => ask({ client: `192.0.2.${i + 1}`, token: "good" })));
  clock.advance(endsMs - clock.wallMs() - 1);
  expect((await ask()).map(({ status }) => status)).toEqual(carriers.map(() => 200));
  clock.advance(1);
  for (const { status, fields } of await ask()) {
    expect([status, fields.get("www-authenticate")]).toEqual([401, 'Bearer realm="finance", error="invalid_token"']);
  }
});

test("a response on its way, a request that waits and a tunnel end with their token", async () => {
  holdTimers(cleanup);
  const clock = new FakeClock();
  const folder = scratchFolder(cleanup);
  const endsMs = Math.ceil(clock.wallMs() / 1000) * 1000 + 60_000;
  const tokensFile = join(folder, "tokens.txt");
  writeFileSync(tokensFile, `${digestOf("short")} expires=${writtenEnd(endsMs)}\n${digestOf("long")}\n`);
  const sockets = new Set<Socket>();
  const upstream = createServer((socket) => {
    sockets.add(socket);
    socket.on("error", () => {});
    socket.once("data", (bytes) => {
      const head = bytes.toString("latin1");
      if (head.includes("/v1/tunnel")) {
        socket.write("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
      } else if (head.includes("/v1/stream")) {
        socket.write("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nbegun");
      }
    });
  });
  await listen(upstream);
  cleanup(() => {
    for (const socket of sockets) socket.destroy();
    upstream.close();
  });
  const address = upstream.address();
  const gateway = await startTestGateway({
    upstreamUrl: `http://127.0.0.1:${typeof address === "object" ? address?.port : 0}`,
    overrides: { auth: { mode: "tokens", tokensFile }, drain: { timeoutMs: 0 } },
    clock,
  });
  cleanup(() => gateway.close());
  const open = (path: string, token: string): RawConnection => {
    const connection = cleanup(new RawConnection(gateway.traffic.port));
    const upgrade = path === "/v1/tunnel" ? "Connection: Upgrade\r\nUpgrade: websocket\r\n" : "";
    connection.write(`GET ${path} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${token}\r\n${upgrade}\r\n`);
    return connection;
  };
  const [tunnel, stream, waiting] = ["/v1/tunnel", "/v1/stream", "/v1/silence"].map((path) => open(path, "short"));
  const kept = open("/v1/tunnel", "long");
  expect((await tunnel?.readHead())?.status).toBe(101);
  expect((await kept.readHead()).status).toBe(101);
  expect((await stream?.readHead())?.status).toBe(200);
  await eventually("the other request is at the upstream", () => sockets.size === 4);
  const pass = (ms: number): void => {
    clock.advance(ms);
    vi.advanceTimersByTime(ms);
  };
  pass(endsMs - clock.wallMs() - 1);
  await turns(10);
  expect([tunnel, stream, waiting].map((each) => [each?.ending, each?.rest])).toEqual([
    [null, ""],
    [null, "begun"],
    [null, ""],
  ]);
  pass(1);
  await inFewTurns("the request is answered", () => waiting?.rest !== "");
  expect((await waiting?.readHead())?.status).toBe(401);
  await Promise.all([tunnel?.closed, stream?.closed]);
  const ended = () => gateway.logLines.filter(({ msg }) => msg === "tunnel ended");
  await eventually("the tunnel is logged", () => ended().length > 0);
  expect(ended()).toMatchObject([{ reason: "token_ended" }]);
  const line = (path: string) => gateway.logLines.find((each) => each["path"] === path);
  expect(line("/v1/stream")).toMatchObject({ status: 200, problem: "expired_token", complete: false });
  expect(line("/v1/silence")).toMatchObject({ status: 401, problem: "expired_token", complete: true });
});

test("14 days before the end there are a log line, a metric and a number in /readyz, which name no metric by a token", async () => {
  const clock = new FakeClock();
  const day = 86_400_000;
  const end = (days: number): string => writtenEnd(Math.ceil(clock.wallMs() / 1000) * 1000 + days * day);
  const { gateway } = await stageTokens(cleanup, {
    ...{ tls: tls(), clock },
    yaml: "auth: { mode: tokens, tokensFile: tokens.txt }\n",
    tokens: [
      `${digestOf("a")} expires=${end(13)} # alice`,
      `${digestOf("b")} expires=${end(-1)} # bob`,
      `${digestOf("c")} expires=${end(15)} # carol`,
      `${digestOf("d")} # dave`,
    ],
  });
  const warned = gateway.logLines.filter(({ msg }) => msg === "listed tokens end soon, or have ended");
  expect(warned).toMatchObject([{ level: "warn", ending: 2, tokens: [{ name: "alice" }, { name: "bob" }] }]);
  const ready = async () => (await fetch(`${gateway.adminUrl}/readyz`)).json();
  expect(await ready()).toMatchObject({ status: "ready", tokens: { listed: 4, ending: 2 } });
  expect(await metric(gateway, "headgate_tokens_ending")).toBe(2);
  clock.advance(2 * day);
  expect(await ready()).toMatchObject({ status: "ready", tokens: { listed: 4, ending: 3 } });
  expect(await metric(gateway, "headgate_tokens_ending")).toBe(3);
  expect(await (await fetch(`${gateway.adminUrl}/metrics`)).text()).not.toMatch(/alice|bob|carol|dave/);
});

test("a scope that the path asks for is needed, on each carrier, and its lack is charged to the token", async () => {
  const { carriers } = await stageTokens(cleanup, {
    ...{ tls: tls(), withPlugin: true },
    yaml: `
auth:
  mode: tokens
  tokensFile: tokens.txt
  rules: [{ paths: [/v1/export/], mode: tokens, scopes: [read, export] }]
policies: [{ name: by-name, limit: 100, window: 60s, key: [subject], who: verified }]
`,
    tokens: [
      ...[`${digestOf("both")} scopes=export,read,x # both`, `${digestOf("one")} scopes=read # one`],
      `${digestOf("none")} # none`,
    ],
  });
  for (const { ask, name } of carriers) {
    const left = async (token: string, path: string): Promise<(string | number | undefined)[]> => {
      const { status, fields } = await ask({ client: "192.0.2.1", path, token });
      if (status === 403) {
        expect(fields.get("www-authenticate")).toBe('Bearer realm="finance", error="insufficient_scope"');
      }
      return [status, fields.get("ratelimit-limit")];
    };
    expect([name, await left("both", "/v1/export/x")]).toEqual([name, [200, "100"]]);
    expect(await left("one", "/v1/export/x")).toEqual([403, "100"]);
    expect(await left("none", "/v1/export/x")).toEqual([403, "100"]);
    expect(await left("none", "/v1//export/x")).toEqual([403, "100"]);
    expect(await left("none", "/v1/x")).toEqual([200, "100"]);
  }
});
