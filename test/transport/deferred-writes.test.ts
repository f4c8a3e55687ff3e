// What may happen between the end of a request or a response and its write at the end of the batch. The test ends batches.
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { type DeferredWriter, DeferredWrites } from "../../src/exchange/socket-writes.ts";
import type { Http1Transport } from "../../src/transport/http1/http1-transport.ts";
import { useCleanup } from "../support/cleanup.ts";
import { eventually, within } from "../support/eventually.ts";
import type { TestGateway } from "../support/gateway.ts";
import { metric, upstreamConnections } from "../support/metrics.ts";
import { slidingPolicy } from "../support/policy.ts";
import type { FramedResponse, RawConnection } from "../support/raw-connection.ts";
import { request, response, stageRaw } from "../support/stage.ts";

const cleanup = useCleanup();
let waiting: DeferredWriter[] = [];

beforeEach(() => {
  waiting = [];
  vi.spyOn(DeferredWrites.prototype, "defer").mockImplementation((writer) => void waiting.push(writer));
});
afterEach(() => {
  vi.restoreAllMocks();
});

function endBatch(): void {
  for (const writer of waiting.splice(0)) writer.writeDeferred();
}

const isWaiting = (count = 1): Promise<void> =>
  eventually(`${count} writes wait`, () => {
    expect(waiting.length).toBeLessThanOrEqual(count);
    return waiting.length === count;
  });

/** The lines of the access log. */
const requestLines = ({ logLines }: Pick<TestGateway, "logLines">) => logLines.filter(({ msg }) => msg === "request");

/** Sends a request whose head to the upstream and whose response wait for a batch each. */
async function ask(client: RawConnection, target: string): Promise<FramedResponse> {
  client.write(request(target));
  await isWaiting();
  endBatch();
  await isWaiting();
  endBatch();
  return client.read();
}

const stage = () => stageRaw(cleanup, (socket) => socket.write(response("ok")));
/** Answered without the upstream. */
const unknown = request("/elsewhere");

test("a response is sent when the batch ends, and then the next request is read", async () => {
  const { connect, gateway } = await stage();
  const client = connect().write(unknown);
  await isWaiting();
  expect(requestLines(gateway)).toEqual([]);
  client.write(request("/elsewhere", { method: "HEAD" }));
  endBatch();
  expect((await client.read()).status).toBe(404);
  await isWaiting();
  endBatch();
  expect(await client.read({ method: "HEAD" })).toMatchObject({ status: 404, body: "" });
  expect(waiting).toEqual([]);
  await eventually("both are logged", () => requestLines(gateway).length === 2);
});

test("a client that leaves meanwhile is sent nothing, and its request is incomplete", async () => {
  const { connect, gateway } = await stage();
  const client = connect().write(unknown);
  await isWaiting();
  client.socket.resetAndDestroy();
  await eventually("it is gone", async () => (await metric(gateway, "headgate_client_connections")) === 0);
  endBatch();
  expect(requestLines(gateway)).toMatchObject([{ status: 404, complete: false }]);
});

test("of pipelined requests, only the last response waits", async () => {
  const { connect } = await stage();
  const client = connect().write(unknown.repeat(3));
  for (const _ of [1, 2]) expect((await client.read()).status).toBe(404);
  expect(waiting).toHaveLength(1);
  expect(client.rest).toBe("");
  endBatch();
  expect((await client.read()).status).toBe(404);
});

test("a response that waits when the gateway begins to drain is sent before the connection ends", async () => {
  const { connect, gateway } = await stage();
  const client = connect().write(unknown);
  await isWaiting();
  const closed = gateway.close();
  endBatch();
  expect((await client.read()).status).toBe(404);
  await within("the drain", closed);
  expect(client.ending).toBe("end");
});

test("a request whose client leaves before it is written does not reach the upstream", async () => {
  const { connect, gateway, upstream } = await stage();
  const client = connect().write(request("/v2/x"));
  await isWaiting();
  client.socket.resetAndDestroy();
  await eventually("it is gone", async () => (await metric(gateway, "headgate_client_connections")) === 0);
  endBatch();
  expect(await upstreamConnections(gateway)).toMatchObject({ active: 0, waiting: 0 });
  expect(upstream.bytes()).toBe("");
});

test("a request that waits while the upstream closes the idle connection goes over another one", async () => {
  const { connect, upstream } = await stage();
  const client = connect();
  expect((await ask(client, "/v2/x")).status).toBe(200);
  client.write(request("/v2/x"));
  await isWaiting();
  const sent = upstream.bytes().length;
  for (const socket of upstream.sockets) socket.destroy();
  // The first one stays, and writes nothing.
  await isWaiting(2);
  endBatch();
  await isWaiting();
  endBatch();
  expect(await client.read()).toMatchObject({ status: 200, body: "ok" });
  expect(upstream.bytes()).toHaveLength(2 * sent);
});

test("bytes that come before a request is written do not answer it", async () => {
  const { connect, upstream } = await stage();
  const client = connect();
  await ask(client, "/v2/x");
  client.write(request("/v2/y"));
  await isWaiting();
  for (const socket of upstream.sockets) socket.write(response("unasked"));
  await isWaiting(2);
  endBatch();
  await isWaiting();
  endBatch();
  expect((await client.read()).body).toBe("ok");
});

test("a response whose connection is aborted in the same batch is not complete", async () => {
  const { connect, gateway } = await stage();
  connect().write(unknown);
  await isWaiting();
  (waiting[0] as Http1Transport).abort();
  // Before the socket says that it is closed.
  endBatch();
  await eventually("it is logged", () => requestLines(gateway).length > 0);
  expect(requestLines(gateway)).toMatchObject([{ status: 404, complete: false }]);
});

test("a response of which all is written does not wait", async () => {
  const { connect } = await stageRaw(cleanup, (socket) => socket.write(response("x".repeat(100_000))));
  const client = connect().write(request("/v2/x"));
  await isWaiting();
  endBatch();
  expect((await client.read()).body).toHaveLength(100_000);
  expect(waiting).toEqual([]);
});

test("a response does not wait if its request holds a slot, which others need", async () => {
  const { connect } = await stageRaw(cleanup, (socket) => socket.write(response("ok")), {
    policies: [{ ...slidingPolicy({ limit: 1, windowMs: 1 }), rate: { kind: "concurrency" } }],
  });
  expect((await connect().ask("GET /v2/x HTTP/1.1\r\nHost: api.test\r\n\r\n")).status).toBe(401);
  expect(waiting).toEqual([]);
});
