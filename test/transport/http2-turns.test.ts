// What one turn of the event loop does for an HTTP/2 client, by count.
import { connect, createServer } from "node:net";
import { expect, test } from "vitest";
import { begin, whole } from "../http2/conversation.ts";
import { useCleanup } from "../support/cleanup.ts";
import { eventually } from "../support/eventually.ts";
import { countInIterations } from "../support/iterations.ts";
import { listen } from "../support/loopback-server.ts";
import { createTestTraffic } from "../support/traffic.ts";

const cleanup = useCleanup();

/** How many of the requests begin in each turn. */
async function requestsInTurns(frames: readonly Buffer[]): Promise<readonly number[]> {
  const requests = countInIterations(cleanup);
  const { openHttp2 } = createTestTraffic({ forward: () => requests.count() });
  const server = cleanup(createServer(openHttp2));
  const port = await listen(server);
  const client = connect(port, "127.0.0.1");
  client.on("error", () => {});
  cleanup(() => client.destroy());
  client.write(Buffer.concat([begin, ...frames]));
  await eventually("all have begun", () => requests.total === frames.length);
  return requests.counts;
}

test.each([
  [8_002, 1],
  [4_002, 2],
])(
  "of requests with targets of %i characters, which may take long to read, %i begin in a turn",
  async (length, most) => {
    // They come in one read or two.
    const targets = Array.from({ length: 7 }, (_, i) => whole(2 * i + 1, `//${"a.".repeat(length / 2 - 1)}`));
    expect(Math.max(...(await requestsInTurns(targets)))).toBe(most);
  },
);

test("a target that is the same again is not read again", async () => {
  const targets = Array.from({ length: 20 }, (_, i) => whole(2 * i + 1, `//${"a.".repeat(900)}`));
  expect(Math.max(...(await requestsInTurns(targets)))).toBeGreaterThan(9);
});
