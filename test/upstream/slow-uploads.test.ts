// Bodies that come slowly while connections to the upstream are scarce: none of them holds a connection before there is
// enough of it, and the memory that they wait in has a bound for each client.
import type { IncomingMessage, ServerResponse } from "node:http";
import { describe, expect, test } from "vitest";
import { ClientBytes } from "../../src/core/client-share.ts";
import { useCleanup } from "../support/cleanup.ts";
import { eventually, within } from "../support/eventually.ts";
import type { Overrides } from "../support/gateway.ts";
import { metric, upstreamConnections } from "../support/metrics.ts";
import { request, stageHttp } from "../support/stage.ts";

const cleanup = useCleanup();
const mib = 1024 * 1024;

/** With four connections, two of them in use by another client, by requests whose bodies came while there were plenty. */
async function startScarce(more: Overrides = {}) {
  const held: ServerResponse[] = [];
  const respond = (req: IncomingMessage, res: ServerResponse, body: Buffer): void => {
    if (req.url === "/v2/held") held.push(res);
    else res.end(`${body.length} bytes`);
  };
  const overrides = { upstream: { maxConnections: 4 }, ...more };
  const staged = await stageHttp(cleanup, respond, overrides);
  for (let i = 1; i <= 2; i += 1) {
    staged.connect({ localAddress: "127.0.0.2" }).write(request("/v2/held"));
    await eventually("it is held", () => held.length === i);
  }
  const active = async (): Promise<number> => (await upstreamConnections(staged.gateway)).active;
  const waitingBytes = (): Promise<number> => metric(staged.gateway, "headgate_waiting_body_bytes");
  return { ...staged, active, waitingBytes };
}

const post = (bytes: number): string => request("/v2/x", { method: "POST", fields: `Content-Length: ${bytes}\r\n` });
const chunked = request("/v2/x", { method: "POST", fields: "Transfer-Encoding: chunked\r\n" });

describe("while connections are scarce", () => {
  test("slow bodies hold none of them, and others are answered", async () => {
    const { connect, active, upstream, waitingBytes } = await startScarce();
    const slow = Array.from({ length: 5 }, (_, i) => {
      const client = connect().write(i % 2 === 0 ? `${post(6)}s` : `${chunked}1\r\ns\r\n`);
      return client;
    });
    const quick = connect();
    expect((await quick.ask(`${post(5)}quick`)).body).toBe("5 bytes");
    expect([await active(), upstream.hits()]).toEqual([2, 3]);
    await eventually("all wait", async () => (await waitingBytes()) === 5 * 512);
    for (const [i, client] of slow.entries()) client.write(i % 2 === 0 ? "lowly" : "5\r\nlowly\r\n0\r\n\r\n");
    for (const client of slow) expect(await client.read()).toMatchObject({ status: 200, body: "6 bytes" });
    const received = upstream.received.filter(({ target }) => target === "/v2/x");
    expect(received.slice(1).map(({ body }) => body.toString())).toEqual(Array(5).fill("slowly"));
    expect(await waitingBytes()).toBe(0);
  });

  test("a large body takes a connection before it is complete, and arrives whole", async () => {
    const { connect, active, upstream } = await startScarce();
    const client = connect().write(post(mib) + "b".repeat(mib / 2));
    await eventually("it has a connection", async () => (await active()) === 3);
    expect((await client.ask("b".repeat(mib / 2))).body).toBe(`${mib} bytes`);
    expect(upstream.received.at(-1)?.body.equals(Buffer.alloc(mib, "b"))).toBe(true);
  });

  test("a client that expects a 100 gets it before there is a connection", async () => {
    const { connect, active } = await startScarce();
    const client = connect();
    client.write(request("/v2/x", { method: "POST", fields: "Content-Length: 4\r\nExpect: 100-continue\r\n" }));
    await eventually("it may go on", () => client.rest.includes("HTTP/1.1 100 Continue\r\n\r\n"));
    expect(await active()).toBe(2);
    client.write("body");
    await eventually("it is answered", () => client.rest.includes("4 bytes"));
  });

  test.each([
    ["408", 408, `${post(6)}s`],
    ["400", 400, `${chunked}1\r\ns\r\nnonsense\r\n`],
    ["413", 413, `${chunked}fff\r\n${"s".repeat(0xfff)}\r\n`],
  ])("a body that ends in a %s uses no connection", async (_, status, bytes) => {
    const { connect, active, upstream, waitingBytes } = await startScarce({
      timeouts: { bodyMs: 1_000 },
      maxBodyBytes: 1_000,
    });
    const client = connect();
    expect((await client.ask(bytes)).status).toBe(status);
    expect(await within("the connection ends", client.closed)).toBe("end");
    expect([await active(), upstream.hits(), await waitingBytes()]).toEqual([2, 2, 0]);
  });

  test("a client that leaves within its body leaves nothing behind", async () => {
    const { connect, active, upstream, waitingBytes } = await startScarce();
    const client = connect().write(`${post(6)}s`);
    await eventually("it waits", async () => (await waitingBytes()) > 0);
    client.destroy();
    const quick = connect();
    expect((await quick.ask(`${post(5)}quick`)).body).toBe("5 bytes");
    expect([await active(), upstream.hits()]).toEqual([2, 3]);
    await eventually("its memory is free", async () => (await waitingBytes()) === 0);
  });
});

describe("the memory of waiting bodies", () => {
  test("is bounded for all together, and for each client by what is free, and is given back", () => {
    const waiting = new ClientBytes(32 * mib);
    const added: [string, number][] = [];
    const add = (client: string, bytes: number): boolean => {
      added.push([client, bytes]);
      return waiting.add(client, bytes);
    };
    expect(add("a", 16 * mib)).toBe(true);
    expect(add("a", 1), "holds as much as is free").toBe(false);
    expect(add("b", 8 * mib - 2)).toBe(true);
    expect(add("b", 1), "the last quarter is not yet reached").toBe(true);
    expect(add("b", 1), "the last quarter is for clients that hold nothing").toBe(false);
    expect(add("c", 8 * mib - 1)).toBe(true);
    expect(add("d", 1), "nothing is free").toBe(false);
    for (const [client, bytes] of added) waiting.add(client, -bytes);
    expect(waiting.bytes).toBe(0);
    expect(waiting.add("a", 1)).toBe(true);
  });
});
