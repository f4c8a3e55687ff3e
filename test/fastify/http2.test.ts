// An app that speaks HTTP/2: each answer has each field once, and a client that leaves ends its exchange.
import { Readable } from "node:stream";
import { beforeAll, describe, expect, test } from "vitest";
import { Authority, type Issued } from "../support/certificates.ts";
import { useCleanup, useSharedCleanup } from "../support/cleanup.ts";
import { expectContractFields } from "../support/contract-fields.ts";
import { eventually } from "../support/eventually.ts";
import { Http2Client } from "../support/http2-client.ts";
import { valuesOf } from "../support/raw-client.ts";
import { response } from "../support/stage.ts";
import { startRawUpstream } from "../support/upstream.ts";
import { accessLines, startTestApp, type TestApp, type TestAppOptions } from "./app.ts";

const cleanup = useCleanup();
const removeLast = useSharedCleanup();
let ca: string;
let issued: Issued;
beforeAll(() => {
  const authority = new Authority(removeLast);
  ca = authority.cert;
  issued = authority.issue();
});

async function start(test: TestAppOptions): Promise<TestApp & { client: Http2Client }> {
  // The types of an app with HTTP/2 are others; the plugin is the same.
  const { key, cert } = issued;
  const server = { ...test.server, http2: true, https: { key, cert } } as NonNullable<TestAppOptions["server"]>;
  const stage = await startTestApp(cleanup, { ...test, server });
  return { ...stage, client: new Http2Client(stage.port, ca, cleanup) };
}

const lower = (name: string): string => name.toLowerCase();

describe("over HTTP/2", () => {
  test("an upstream's status over 599 is a 502, because Node's HTTP/2 cannot send it", async () => {
    const upstream = cleanup(await startRawUpstream((socket) => void socket.write(response("ok", "", "600 Odd"))));
    const { client } = await start({ options: { upstream: { url: upstream.url } } });
    expect((await client.ask()).status).toBe(502);
    expect((await client.ask()).status).toBe(502);
  });

  test("of a rewritten target the one that the router sees counts", async () => {
    const { client } = await start({
      options: { routes: ["/v1/"] },
      server: { rewriteUrl: ({ url = "" }) => url.replace("/old/", "/v1/") },
      routes: (app) => app.get("/v1/x", async () => "ok"),
    });
    const { status, rawHeaders } = await client.ask({ path: "/old/x", fields: { authorization: "" } });
    expect([status, valuesOf(rawHeaders, "ratelimit-remaining")]).toEqual([401, ["99"]]);
  });

  test("each answer has each field once, whoever makes it", async () => {
    const spoofed = { "ratelimit-limit": "7", "X-RateLimit-Reset": "1", "x-request-id": "mine" };
    const { client } = await start({
      options: { policies: [{ name: "per-ip", limit: 6, window: "60s" }] },
      routes: (app) => {
        app.get("/value", async (_request, reply) => reply.headers(spoofed).send({ a: 1 }));
        app.get("/stream", async (_request, reply) => reply.headers(spoofed).send(Readable.from(["a", "b"])));
        app.get("/raw", (_request, reply) => void reply.hijack().raw.writeHead(200, spoofed).end("raw"));
        app.post("/body", async ({ body }) => body);
      },
    });
    const cases = [
      [{ path: "/value" }, 200, '{"a":1}'],
      [{ path: "/stream" }, 200, "ab"],
      [{ path: "/raw" }, 200, "raw"],
      [{ path: "/body", method: "POST", fields: { "content-type": "text/plain" }, body: "hi" }, 200, "hi"],
      [{ path: "/value", fields: { authorization: "Basic x" } }, 401, null],
      [{ path: "/%zz" }, 400, null],
      [{ path: "/value" }, 429, null],
    ] as const;
    for (const [i, [ask, status, body]] of cases.entries()) {
      const answer = await client.ask(ask);
      expect(answer.status).toBe(status);
      expectContractFields(answer, { limit: 6, remaining: Math.max(0, 5 - i) }, lower);
      expect(valuesOf(answer.rawHeaders, "x-request-id")).toEqual([expect.stringMatching(/^[0-9a-f-]{36}$/)]);
      expect(valuesOf(answer.rawHeaders, "connection")).toEqual([]);
      if (body !== null) expect(answer.body).toBe(body);
    }
  });

  test.each([
    { method: "FOO" },
    { method: "get" },
    { method: "FOO", path: "/none" },
    { method: "FOO", fields: { expect: "100-continue" } },
    { method: "FOO", fields: { expect: "something" } },
  ])("%j is refused before the router, with the fields and a line of the log", async (ask) => {
    const { client, ...app } = await start({ routes: (app) => app.all("/v2/x", async () => "the app") });
    const answer = await client.ask(ask);
    expect(answer.status).toBe(501);
    expectContractFields(answer, { limit: 100, remaining: 100 }, lower);
    await eventually("it is logged", () => accessLines(app).length === 1);
    expect(accessLines(app)).toMatchObject([{ status: 501, problem: "unsupported_method", decision: "observed" }]);
    expect((await client.ask()).body).toBe("the app");
  });

  test("a client that resets its stream ends the exchange, once", async () => {
    const { client, ...app } = await start({
      routes: (app) => app.get("/slow", (_request, reply) => void reply.hijack().raw.writeHead(200).write("half")),
    });
    const stream = client.open({ path: "/slow" });
    await new Promise((resolve) => stream.once("response", resolve));
    stream.close();
    await eventually("it is logged", () => accessLines(app).length === 1);
    expect(accessLines(app)).toMatchObject([{ status: 200, complete: false, decision: "admitted" }]);
  });

  test("an announced body over the bound is refused before it is read", async () => {
    const { client } = await start({
      options: { maxBodyBytes: 10 },
      routes: (app) => app.post("/x", async () => "no"),
    });
    const ask = { path: "/x", method: "POST", fields: { "content-length": "11" }, body: "x", isOpen: true };
    expect((await client.ask(ask)).status).toBe(413);
  });
});
