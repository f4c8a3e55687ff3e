// Responses that are unusual and right, beside those of conformance/responses/corpus.ts.
import type { Socket } from "node:net";
import { expect, test } from "vitest";
import { useCleanup } from "../support/cleanup.ts";
import { within } from "../support/eventually.ts";
import { request, response, stageRaw } from "../support/stage.ts";

const cleanup = useCleanup();

test.each([
  ["204 No Content", "Content-Length: 5\r\n"],
  ["204 No Content", "Transfer-Encoding: chunked\r\n"],
  ["304 Not Modified", "Content-Length: 5\r\n"],
])("what comes late behind a %s with %j answers nobody else", async (statusLine, fields) => {
  const served = new Set<Socket>();
  const { connect } = await stageRaw(cleanup, (socket) => {
    // The content that was announced, as the next request comes.
    if (served.has(socket)) socket.write(response("stale") + response("fresh"));
    else if (served.size > 0) socket.write(response("fresh"));
    else socket.write(`HTTP/1.1 ${statusLine}\r\n${fields}\r\n`);
    served.add(socket);
  });
  const client = connect();
  expect((await client.ask(request("/v2/x"))).status).toBe(Number(statusLine.slice(0, 3)));
  expect((await client.ask(request("/v2/y"))).body).toBe("fresh");
});

test("an HTTP/1.0 client gets a body it can read to the end of the connection, never chunks", async () => {
  const chunks = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n";
  const { connect } = await stageRaw(cleanup, (socket) => void socket.write(chunks));
  const client = connect();
  const answer = await client.ask("GET /v2/x HTTP/1.0\r\nHost: a\r\nAuthorization: Bearer t\r\n\r\n");
  expect(answer).toMatchObject({ status: 200, body: "body", endedByClose: true });
  expect(await within("the connection ends", client.closed)).toBe("end");
});
