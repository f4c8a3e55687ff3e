// A bug behind the decision about a stream: one answer with the quota it was charged, told once.
import { connect } from "node:http2";
import { createServer } from "node:net";
import { expect, test } from "vitest";
import { useCleanup } from "../support/cleanup.ts";
import { eventually } from "../support/eventually.ts";
import { answerOf } from "../support/http2-client.ts";
import { listen } from "../support/loopback-server.ts";
import { valuesOf } from "../support/raw-client.ts";
import { createTestTraffic } from "../support/traffic.ts";

const cleanup = useCleanup();

test("a forwarder that throws is a 500 with the quota as it was charged, and told once", async () => {
  const { openHttp2, ended, failures } = createTestTraffic({
    forward: () => {
      throw new Error("a bug");
    },
  });
  const server = createServer(openHttp2);
  const port = await listen(cleanup(server));
  const session = cleanup(connect(`http://127.0.0.1:${port}`));
  const answer = await answerOf(session.request({ ":path": "/v2/x" }));
  expect(answer.status).toBe(500);
  expect(valuesOf(answer.rawHeaders, "ratelimit-remaining")).toEqual(["99"]);
  await eventually("it is told of", () => ended.length > 0);
  await new Promise((resolve) => session.close(() => resolve(undefined)));
  expect(ended).toMatchObject([{ status: 500, problem: "internal" }]);
  expect(failures).toEqual([new Error("a bug")]);
});
