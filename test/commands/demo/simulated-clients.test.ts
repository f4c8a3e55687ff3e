// The clients of the demo: how much they ask for at most, what they do when they are refused, and that they end at once.
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { expect, onTestFinished, test } from "vitest";
import {
  type ClientHabit,
  habits,
  hasAddress,
  startSimulatedClients,
} from "../../../src/commands/demo/simulated-clients.ts";
import { eventually, within } from "../../support/eventually.ts";
import { listen } from "../../support/loopback-server.ts";

const quick: ClientHabit = {
  ...{ name: "quick", address: "127.0.1.20", path: "/v2/me", token: "t", requests: 3, gapMs: 1, pauseMs: 3_600_000 },
  ...{ waitsWhenRefused: false, does: "" },
};

async function serve(answer: (request: IncomingMessage, response: ServerResponse) => void): Promise<string> {
  const server = createServer(answer);
  const port = await listen(server);
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${port}`;
}

/** What a client got from a server that refuses its second request, for a second. */
async function statusesOf(habit: ClientHabit, count: number): Promise<readonly number[]> {
  const statuses: number[] = [];
  const url = await serve((_, response) => {
    const status = statuses.length === 1 ? 429 : 200;
    statuses.push(status);
    response.writeHead(status, { "retry-after": "1" }).end();
  });
  const clients = startSimulatedClients(url, [habit], (_, error) => expect.unreachable(error.message));
  onTestFinished(() => clients.stop());
  await eventually(`there were ${count} requests`, () => statuses.length === count);
  await clients.stop();
  return statuses;
}

test("all together send at most 30 requests a second, each from an address of its own", () => {
  const perSecond = habits.map(({ gapMs }) => 1000 / gapMs);
  expect(perSecond.reduce((sum, each) => sum + each)).toBeLessThanOrEqual(30);
  expect(new Set(habits.map(({ address }) => address)).size).toBe(habits.length);
  for (const { address } of habits) expect(address).toMatch(/^127\.0\.1\./);
});

test("each request has the client's address and token", async () => {
  const seen: unknown[] = [];
  const url = await serve(({ socket, url, headers }, response) => {
    seen.push([socket.remoteAddress, url, headers.authorization]);
    response.end();
  });
  const clients = startSimulatedClients(url, [quick], () => {});
  onTestFinished(() => clients.stop());
  await eventually("all have come", () => seen.length === 3);
  expect(seen).toEqual(Array(3).fill(["127.0.1.20", "/v2/me", "Bearer t"]));
});

test("a client that does not wait takes a 429 for one of its answers", async () => {
  expect(await statusesOf(quick, 3)).toEqual([200, 429, 200]);
});

test("a client that waits sends the request that was refused again", async () => {
  expect(await statusesOf({ ...quick, waitsWhenRefused: true }, 4)).toEqual([200, 429, 200, 200]);
});

test("a stop ends requests and waits that are under way", async () => {
  let asked = 0;
  const url = await serve((_request, response) => {
    asked += 1;
    // The head and a part of a body that never ends, or nothing.
    if (asked === 1) response.writeHead(200).write("x");
  });
  const failures: unknown[] = [];
  const clients = startSimulatedClients(url, [quick, { ...quick, address: "127.0.1.21" }], (_, error) =>
    failures.push(error),
  );
  await eventually("both have asked", () => asked === 2);
  await within("they stop", clients.stop());
  expect(failures).toEqual([]);
});

test("a gateway that is gone is reported, and not asked again at once", async () => {
  const failures: string[] = [];
  let asked = 0;
  const url = await serve(({ socket }) => {
    asked += 1;
    socket.destroy();
  });
  const clients = startSimulatedClients(url, [quick], ({ name }, error) => failures.push(`${name}: ${error.message}`));
  await eventually("it is reported", () => failures.length > 0);
  await clients.stop();
  expect([failures, asked]).toEqual([["quick: socket hang up"], 1]);
});

test("an address of another machine is none that clients may have", async () => {
  expect([await hasAddress("127.0.1.11"), await hasAddress("192.0.2.1")]).toEqual([true, false]);
});
