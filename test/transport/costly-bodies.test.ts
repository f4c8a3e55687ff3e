// Bodies that cost far more to take apart than to send. What is malformed or odd about a message stands in the corpus
// of test/conformance/requests.
import { expect, test } from "vitest";
import { useCleanup } from "../support/cleanup.ts";
import { request, stageHttp } from "../support/stage.ts";

const cleanup = useCleanup();
const post = { method: "POST", fields: "Transfer-Encoding: chunked\r\n" };

test("a body of 50,000 chunks of one byte arrives whole", async () => {
  const { upstream, connect } = await stageHttp(cleanup);
  const client = connect();
  client.write(request("/v2/x", { ...post, body: `${"1\r\nx\r\n".repeat(50_000)}0\r\n\r\n` }));
  expect((await client.read()).status).toBe(200);
  expect(upstream.received[0]?.body.length).toBe(50_000);
});

test("extensions on a thousand chunks are dropped, and the body arrives whole", async () => {
  const { upstream, connect } = await stageHttp(cleanup);
  const client = connect();
  client.write(request("/v2/x", { ...post, body: `${`1;${"e".repeat(50)}\r\nx\r\n`.repeat(1_000)}0\r\n\r\n` }));
  expect((await client.read()).status).toBe(200);
  expect(upstream.received[0]?.body.toString()).toBe("x".repeat(1_000));
});
