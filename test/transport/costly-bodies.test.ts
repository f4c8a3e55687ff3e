// Bodies that cost far more to take apart than to send. What is malformed or odd about a message stands in the corpus
// of test/conformance/requests.
import { expect, test } from "vitest";
import { useCleanup } from "../support/cleanup.ts";
import { FakeClock } from "../support/clock.ts";
import { eventually, within } from "../support/eventually.ts";
import { metric } from "../support/metrics.ts";
import { valuesOf } from "../support/raw-client.ts";
import { request, stageHttp, stageRaw } from "../support/stage.ts";

const cleanup = useCleanup();
const chunk = (bytes: string): string => `${bytes.length.toString(16)}\r\n${bytes}\r\n`;
const post = { method: "POST", fields: "Transfer-Encoding: chunked\r\n" };

test("a body of 50,000 chunks of 100 bytes, sent at once, arrives whole", async () => {
  const { upstream, connect } = await stageHttp(cleanup);
  const client = connect();
  client.write(request("/v2/x", { ...post, body: `${chunk("x".repeat(100)).repeat(50_000)}0\r\n\r\n` }));
  expect((await client.read()).status).toBe(200);
  expect(upstream.received[0]?.body.length).toBe(5_000_000);
});

test("a body of 50,000 chunks of one byte is 400 after some hundreds, and its connection is closed", async () => {
  const { upstream, connect, gateway } = await stageHttp(cleanup);
  const client = connect();
  const answer = await client.ask(request("/v2/x", { ...post, body: `${chunk("x").repeat(50_000)}0\r\n\r\n` }));
  expect(answer).toMatchObject({ status: 400, body: expect.stringContaining("in too many small pieces") });
  expect(valuesOf(answer.rawHeaders, "Connection")).toEqual(["close"]);
  expect(await within("the connection ends", client.closed)).toBe("end");
  expect(await metric(gateway, 'headgate_refusals_total{reason="small_pieces"}')).toBe(1);
  expect(upstream.received).toEqual([]);
});

test("a line of a log every 50 ms is uploaded for as long as it takes", async () => {
  const clock = new FakeClock();
  const { upstream, connect } = await stageRaw(cleanup, () => {}, { timeouts: { bodyMs: 3_600_000 } }, clock);
  const client = connect().write(request("/v2/x", post));
  for (let i = 0; i < 2_000; i += 1) {
    client.write(chunk("a line"));
    clock.advance(50);
    if (i % 50 === 0) await eventually("it is there", () => upstream.bytes().split("a line").length > i);
  }
  client.write(chunk("the last one"));
  await eventually("the last one is there", () => upstream.bytes().includes("the last one"));
  expect(client.receivedBytes).toBe(0);
});

test("extensions on 500 chunks are dropped, and the body arrives whole", async () => {
  const { upstream, connect } = await stageHttp(cleanup);
  const client = connect();
  client.write(request("/v2/x", { ...post, body: `${`1;${"e".repeat(50)}\r\nx\r\n`.repeat(500)}0\r\n\r\n` }));
  expect((await client.read()).status).toBe(200);
  expect(upstream.received[0]?.body.toString()).toBe("x".repeat(500));
});
