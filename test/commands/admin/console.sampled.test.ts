// `headgate console`: who may call through its port, what is passed on, and that it ends with the command.
import { once } from "node:events";
import { createServer, get, type IncomingMessage } from "node:http";
import { connect, createServer as createTcpServer } from "node:net";
import { describe, expect, test } from "vitest";
import { guessRate } from "../../../src/admin/access.ts";
import { Console } from "../../../src/commands/admin/printed-schemas.ts";
import { run } from "../../../src/commands/admin/run.ts";
import { parseArguments } from "../../../src/commands/arguments.ts";
import { type Call, call as send } from "../../admin/api-stage.ts";
import { status } from "../../admin/fake-plane.ts";
import { useCleanup } from "../../support/cleanup.ts";
import { eventually, within } from "../../support/eventually.ts";
import { listen } from "../../support/loopback-server.ts";
import { scaled } from "../../support/runs.ts";
import { testIo } from "../test-io.ts";
import { expectFit, stageCommands, startMadeUp } from "./command-stage.ts";

const cleanup = useCleanup();
const yaml = "auth: { mode: presence }\npolicies: [{ name: per-client, limit: 10, window: 1h }]\n";

/** A console onto the gateway that the options name. */
async function open(options: readonly string[], words: readonly string[] = []) {
  const io = testIo();
  const parsed = parseArguments(["console", "--json", ...words, ...options]);
  if (!parsed.ok || parsed.invocation.command !== "admin") throw new Error("no invocation");
  const ended = run(parsed.invocation.args, io, status.version);
  cleanup(async () => {
    io.signal("SIGTERM");
    await ended;
  });
  await eventually("it is open", () => io.outText() !== "");
  const opened = JSON.parse(io.outText()) as { url: string; token: string; isReadOnly: boolean };
  const port = Number(new URL(opened.url).port);
  return {
    ...{ io, ended, port, opened },
    call: (method: string, path: string, options: Call = {}) =>
      send(port, method, path, { token: opened.token, ...options }),
  };
}

async function openOntoGateway(...words: readonly string[]) {
  const stage = await stageCommands(cleanup, yaml);
  return { ...(await open(["--socket", stage.socket], words)), stage };
}

const block = { client: "203.0.113.9", action: "block", for: "1h" };

describe("calls", () => {
  test("are answered as the API answers them", async () => {
    const { call, opened } = await openOntoGateway();
    expectFit(Console, opened);
    expect((await call("GET", "/api/status")).json).toMatchObject({ state: "ready" });
    const made = await call("PUT", "/api/rules/x", { body: block });
    expect([made.status, made.headers["etag"]]).toEqual([201, '"1"']);
    expect(made.headers).toMatchObject({ "cache-control": "no-store", "x-request-id": expect.any(String) });
    const stale = await call("PUT", "/api/rules/x", { body: block, headers: { "if-match": '"7"' } });
    expect(stale.status).toBe(412);
    expect((await call("DELETE", "/api/rules/x", { headers: { "if-match": '"1"' } })).status).toBe(200);
    expect((await call("GET", "/nothing")).status).toBe(404);
    expect((await call("PUT", "/api/rules/x", { body: "{" })).status).toBe(415);
  });

  test.each([
    ["a wrong token", { token: "wrong" }, 401],
    ["no token", { token: null }, 401],
    ["a host that was made to point here", { headers: { host: "evil.example" } }, 421],
    ["such a host with the port", { headers: { host: "evil.example:PORT" } }, 421],
    ["a loopback name without the port", { headers: { host: "localhost" } }, 421],
    ["a loopback name with another port", { headers: { host: "localhost:1" } }, 421],
    ["a page of another origin", { headers: { origin: "https://evil.example" } }, 403],
    ["a page of another port", { headers: { origin: "http://127.0.0.1:1" } }, 403],
    ["a page in a frame of its own", { headers: { origin: "null" } }, 403],
    ["a loopback name with the port", { headers: { host: "localhost:PORT" } }, 200],
    ["its own origin", { headers: { origin: "http://127.0.0.1:PORT" } }, 200],
  ] as [string, Call, number][])("%s: %j gets %i", async (_what, options, expected) => {
    const { call, port } = await openOntoGateway();
    const headers = Object.entries(options.headers ?? {}).map(([name, value]) => [
      name,
      value.replace("PORT", `${port}`),
    ]);
    const { status: answered, json } = await call("GET", "/api/status", {
      ...options,
      headers: Object.fromEntries(headers),
    });
    expect(answered).toBe(expected);
    if (answered !== 200)
      expect(json).toEqual({ message: expect.any(String), errors: [{ errMsg: expect.any(String) }] });
  });

  test("the status says to who may read alone that nothing may be changed, whatever the gateway allows the command", async () => {
    const { call, stage } = await openOntoGateway("--read");
    const { status: answered, json, headers } = await call("GET", "/api/status");
    expect(answered).toBe(200);
    expect(json).toMatchObject({ state: "ready", caller: { name: "socket", role: "read" } });
    expect(headers).toMatchObject({ "cache-control": "no-store", "x-request-id": expect.any(String) });
    const writer = await open(["--socket", stage.socket]);
    expect((await writer.call("GET", "/api/status")).json).toMatchObject({ caller: { role: "write" } });
  });

  test("who guesses does not keep out whoever has the token", async () => {
    const { call } = await openOntoGateway();
    for (let i = 0; i < guessRate.burst + 2; i += 1) {
      expect((await call("GET", "/api/status", { token: `guess-${i}` })).status).toBe(401);
    }
    expect((await call("GET", "/api/status")).status).toBe(200);
  });

  test("the answer to each change arrives, also one that does not wait for the body", async () => {
    const { call } = await openOntoGateway();
    const statuses = new Map<string, number>();
    const count = scaled(100, 5);
    for (let i = 0; i < count; i += 1) {
      for (const [path, method, body] of [
        [`/api/rules/rule-${i}`, "PUT", block],
        ["/api/reload/confirm", "POST", {}],
      ] as const) {
        const { status: answered } = await call(method, path, { body });
        statuses.set(`${method} ${answered}`, (statuses.get(`${method} ${answered}`) ?? 0) + 1);
      }
    }
    expect(Object.fromEntries(statuses)).toEqual({ "PUT 201": count, "POST 409": count });
    expect((await call("POST", "/api/check", { body: { method: "x".repeat(70_000) } })).status).toBe(413);
  });

  test.each(["HTTP/1.1 099 x\r\n\r\n", "HTTP/1.1 101 x\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n"])(
    "an answer that is none is 502: %j",
    async (answer) => {
      const gateway = createTcpServer((socket) => {
        socket.on("error", () => {});
        socket.on("data", (data) => {
          const first = String(data).startsWith("GET /api/status ");
          const json = JSON.stringify(status);
          socket.end(first ? `HTTP/1.1 200 OK\r\nContent-Length: ${json.length}\r\n\r\n${json}` : answer);
        });
      });
      const port = await listen(cleanup(gateway));
      const made = await startMadeUp(cleanup, () => [200, status]);
      const { call } = await open(["--url", `http://127.0.0.1:${port}`, ...made.options.slice(2)]);
      expect((await call("GET", "/api/rules")).status).toBe(502);
      expect((await call("GET", "/api/status")).status).toBe(200);
    },
  );

  test("the page's files are open, for this host and origin alone", async () => {
    const { call } = await openOntoGateway();
    const page = await call("GET", "/console/", { token: null });
    expect([page.status, page.headers["content-type"]]).toEqual([200, "text/html; charset=utf-8"]);
    expect(page.headers["content-security-policy"]).toContain("default-src 'none'");
    expect((await call("GET", "/console/main.js", { token: null })).status).toBe(200);
    expect((await call("GET", "/console/x", { token: null })).status).toBe(404);
    for (const path of [
      "/console/../api/status",
      "/console/..",
      "/console/.",
      "/console/%2e%2e/api/status",
      "/console/?x",
      "/console",
    ]) {
      expect([path, (await call("GET", path, { token: null })).status]).toEqual([path, 401]);
    }
    expect((await call("POST", "/console/", { token: null })).status).toBe(401);
    expect((await call("GET", "/console/", { token: null, headers: { host: "evil.example" } })).status).toBe(421);
    expect((await call("GET", "/console/", { token: null, headers: { origin: "null" } })).status).toBe(403);
  });

  test("a target that is no path is not passed on", async () => {
    const { port, opened } = await openOntoGateway();
    const socket = cleanup(connect(port, "127.0.0.1"));
    const head = `Host: 127.0.0.1:${port}\r\nAuthorization: Bearer ${opened.token}\r\n\r\n`;
    socket.write(`GET http://127.0.0.1:${port}/api/status HTTP/1.1\r\n${head}`);
    const [answer] = await once(socket, "data");
    expect(String(answer)).toMatch(/^HTTP\/1\.1 400 /);
  });
});

describe("--read", () => {
  test("passes on what changes nothing alone", async () => {
    const { call, opened } = await openOntoGateway("--read");
    expect(opened.isReadOnly).toBe(true);
    expect((await call("GET", "/api/rules")).json).toEqual({ rules: [] });
    const wanted = { method: "GET", target: "/v2/x", client: "203.0.113.9" };
    expect((await call("POST", "/api/check", { body: wanted })).status).toBe(200);
    for (const [method, path, body] of [
      ["PUT", "/api/rules/x", block],
      ["POST", "/api/reload", {}],
      ["POST", "/api/check/../drain", {}],
      ["POST", "/api/check?/../drain", {}],
      ["DELETE", "/api/clients/client%3A203.0.113.9", undefined],
    ] as const) {
      const answer = await call(method, path, { body });
      expect([method, path, answer.status]).toEqual([method, path, 403]);
    }
    expect((await call("GET", "/api/rules")).json).toEqual({ rules: [] });
  });
});

describe("over --url", () => {
  test("the gateway gets its own token in place of that of the run, and no other headers", async () => {
    const seen: IncomingMessage["headers"][] = [];
    const gateway = await startMadeUp(cleanup, (_method, path, _body, request) => {
      if (path === "/api/rules") seen.push(request.headers);
      return [200, status];
    });
    const { call, opened } = await open(gateway.options);
    const headers = { cookie: "secret=1", "x-forwarded-for": "203.0.113.1", accept: "application/json" };
    expect((await call("GET", "/api/rules", { headers })).status).toBe(200);
    expect(seen).toEqual([
      {
        ...{ accept: "application/json", authorization: "Bearer made-up-token" },
        ...{ host: new URL(gateway.url).host, connection: "close" },
      },
    ]);
    expect(opened.token).not.toBe("made-up-token");
  });

  test("a body that nobody expects is passed on as a body, and not as the next request", async () => {
    const gateway = await startMadeUp(cleanup, () => [200, status]);
    const { port, opened } = await open(gateway.options, ["--read"]);
    const hidden = "DELETE /api/rules/x HTTP/1.1\r\nHost: localhost\r\n\r\n";
    const socket = cleanup(connect(port, "127.0.0.1"));
    const head = `Host: 127.0.0.1:${port}\r\nAuthorization: Bearer ${opened.token}\r\n`;
    const body = `${hidden.length.toString(16)}\r\n${hidden}\r\n0\r\n\r\n`;
    socket.write(`GET /api/rules HTTP/1.1\r\n${head}Transfer-Encoding: chunked\r\n\r\n${body}`);
    await once(socket, "data");
    expect(gateway.received.slice(1)).toEqual([`GET /api/rules ${hidden}`]);
  });

  test("a gateway that has gone away is 502", async () => {
    const gateway = await startMadeUp(cleanup, () => [200, status]);
    const { call } = await open(gateway.options);
    gateway.server.closeAllConnections();
    await new Promise((resolve) => void gateway.server.close(resolve));
    const answer = await call("GET", "/api/status");
    expect([answer.status, answer.json]).toEqual([
      502,
      { message: "Bad Gateway", errors: [{ errMsg: "The gateway cannot be asked: ECONNREFUSED." }] },
    ]);
  });
});

describe("streams and the end", () => {
  test("a head is passed on before there is a body, and a caller that leaves ends the call", async () => {
    const closed: Promise<unknown>[] = [];
    const gateway = createServer((request, response) => {
      if (request.url === "/api/status") response.end(JSON.stringify(status));
      else closed.push(once(response, "close"));
      if (request.url === "/api/events")
        response.writeHead(200, { "content-type": "text/event-stream" }).flushHeaders();
    });
    const at = await listen(gateway);
    cleanup(() => {
      gateway.closeAllConnections();
      gateway.close();
    });
    const made = await startMadeUp(cleanup, () => [200, status]);
    const { port, opened } = await open(["--url", `http://127.0.0.1:${at}`, ...made.options.slice(2)]);
    const stream = await within("the head of the stream", openStream(port, opened.token));
    expect(stream.response.statusCode).toBe(200);
    const headers = { authorization: `Bearer ${opened.token}` };
    const waiting = get({ host: "127.0.0.1", port, path: "/api/rules", agent: false, headers });
    waiting.on("error", () => {});
    await eventually("both calls are at the gateway", () => closed.length === 2);
    waiting.destroy();
    await within("the call without an answer has ended", closed[1] ?? Promise.reject(new Error("no call")));
  });

  test("events come as they happen", async () => {
    const { call, port, opened } = await openOntoGateway();
    const stream = await openStream(port, opened.token);
    expect(stream.response.headers["content-type"]).toBe("text/event-stream");
    await call("PUT", "/api/rules/x", { body: block });
    await eventually("the event has come", () => stream.text().includes("event: rule\n"));
  });

  test.each(["SIGINT", "SIGTERM", "SIGHUP"] as const)(
    "%s closes the port and what is under way, at once",
    async (signal) => {
      const { io, ended, port, opened, stage } = await openOntoGateway();
      const stream = await openStream(port, opened.token);
      const closed = new Promise((resolve) => stream.response.once("close", resolve));
      io.signal(signal);
      expect(await within("it has ended", ended)).toBe(0);
      await within("the stream is closed", closed);
      const refused = once(connect(port, "127.0.0.1"), "connect");
      await expect(refused).rejects.toMatchObject({ code: "ECONNREFUSED" });
      expect((await stage.headgate("status")).code).toBe(0);
    },
  );

  test("a caller that leaves its stream leaves none at the gateway", async () => {
    const { port, opened } = await openOntoGateway();
    for (let i = 0; i < 20; i += 1) {
      const stream = await openStream(port, opened.token);
      stream.response.destroy();
      await eventually("it may be opened again", async () => {
        const next = await openStream(port, opened.token);
        next.response.destroy();
        return next.response.statusCode === 200;
      });
    }
  });

  test("a port that is taken is an error", async () => {
    const { port, stage } = await openOntoGateway();
    const { code, err } = await stage.headgate(`console --port ${port}`);
    expect({ code, err }).toEqual({ code: 69, err: expect.stringContaining("cannot open a port: listen EADDRINUSE") });
  });

  test("says for people where it is, and its token", async () => {
    const { socket } = await stageCommands(cleanup, yaml);
    const io = testIo();
    const parsed = parseArguments(["console", "--read", "--socket", socket]);
    if (!parsed.ok || parsed.invocation.command !== "admin") throw new Error("no invocation");
    const ended = run(parsed.invocation.args, io, "0.0.0-test");
    await eventually("it is open", () => io.outText() !== "");
    io.signal("SIGINT");
    await ended;
    expect(io.outText()).toMatch(
      /^The console of the gateway at \/.*admin\.sock, until Ctrl-C, to read only\. The link signs in once, within a minute:\n {2}http:\/\/127\.0\.0\.1:\d+\/console\/#code=[\w-]{43}\nLater, sign in with the token of this run:\n {2}([\w-]{43})\nThe API is on the same port:\n {2}curl -H 'Authorization: Bearer \1' http:\/\/127\.0\.0\.1:\d+\/api\/status\n$/,
    );
  });
});

async function openStream(port: number, token: string) {
  const outgoing = get({
    ...{ host: "127.0.0.1", port, path: "/api/events", agent: false },
    headers: { authorization: `Bearer ${token}` },
  });
  const [response] = (await once(outgoing, "response")) as [IncomingMessage];
  cleanup(() => response.destroy());
  let text = "";
  response.on("error", () => {});
  response.on("data", (data: Buffer) => {
    text += data.toString();
  });
  return { response, text: () => text };
}
