// What one client can take of the tunnels, and whose tunnel is closed for it. The clients are those of a trusted proxy.
import { once } from "node:events";
import { expect, test } from "vitest";
import type { WebSocket } from "ws";
import { useCleanup } from "../support/cleanup.ts";
import { FakeClock } from "../support/clock.ts";
import { eventually, within } from "../support/eventually.ts";
import { metric } from "../support/metrics.ts";
import { RawConnection } from "../support/raw-connection.ts";
import { stageWebSockets, tunnels } from "../support/web-sockets.ts";

const cleanup = useCleanup();
const [a, b, c, d] = ["192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4"];
const exceeded = 'headgate_client_share_exceeded_total{resource="tunnels"}';

async function stage(maxTunnels: number) {
  const clock = new FakeClock();
  const upgrade = { maxTunnels };
  const clientAddress = { trustedProxies: ["127.0.0.1"] };
  const echo = (socket: WebSocket): void => void socket.on("message", (data) => socket.send(data));
  const overrides = { upgrade, clientAddress };
  const staged = await stageWebSockets(cleanup, echo, overrides, {}, clock);
  return {
    ...staged,
    clock,
    open: (client: string) =>
      staged.open({ headers: { Authorization: "Bearer secret-token", "X-Forwarded-For": client } }),
    /** Opens what is refused, and returns the answer. */
    async refused(client: string) {
      const connection = cleanup(new RawConnection(staged.gateway.traffic.port));
      const fields =
        "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: a\r\n";
      const forwarded = `Host: a\r\nAuthorization: Bearer t\r\nX-Forwarded-For: ${client}\r\n`;
      const { status, body } = await connection.ask(`GET /v2/live HTTP/1.1\r\n${forwarded}${fields}\r\n`);
      return [status, JSON.parse(body).errors[0].errMsg];
    },
  };
}

test("the client with the most loses the tunnel that is idle longest to one that has none, if none is free", async () => {
  const { open, gateway, clock } = await stage(4);
  const greedy: WebSocket[] = [];
  for (let i = 0; i < 2; i += 1) {
    greedy.push(await open(a));
    clock.advance(1_000);
  }
  const others = [await open(b), await open(c)];
  const [first, second] = greedy as [WebSocket, WebSocket];
  const echoed = once(first, "message");
  first.send("still here");
  await within("its echo", echoed);
  clock.advance(1_000);
  const closed = once(second, "close");
  const other = await open(d);
  expect((await within("the second closes", closed))[0]).toBe(1006);
  expect([first, second, ...others].map(({ readyState, OPEN }) => readyState === OPEN)).toEqual([
    true,
    false,
    true,
    true,
  ]);
  const back = once(other, "message");
  other.send("hello");
  expect(String((await within("its echo", back))[0])).toBe("hello");
  expect(await tunnels(gateway)).toEqual({ opening: 0, open: 4 });
  expect(await metric(gateway, exceeded)).toBe(1);
  await eventually("it is logged", () => gateway.logLines.some(({ reason }) => reason === "over_share"));
  expect(gateway.logLines).toContainEqual(
    expect.objectContaining({ msg: "client over its share", resource: "tunnels", client: a }),
  );
});

test("a client alone has a half of the tunnels, is refused more, and gets them again when they close", async () => {
  const { open, refused, gateway, clock } = await stage(4);
  const all = [await open(a), await open(a)];
  clock.advance(60_000);
  expect(await refused(a)).toEqual([503, "This client has used up its share of the tunnels."]);
  expect(await metric(gateway, exceeded)).toBe(1);
  expect(all.every(({ readyState, OPEN }) => readyState === OPEN)).toBe(true);
  for (const client of all) client.close();
  await eventually("nothing is left", async () => (await tunnels(gateway)).open === 0);
  await open(a);
  await open(a);
  expect(await tunnels(gateway)).toEqual({ opening: 0, open: 2 });
});

test("a tunnel that has ended is not closed in place of one that is open", async () => {
  const { open, gateway, clock } = await stage(8);
  const [ended, ...left] = [await open(a), await open(a), await open(a)] as [WebSocket, WebSocket, WebSocket];
  for (const client of [b, c, d, "192.0.2.5", "192.0.2.6"]) await open(client);
  ended.close();
  await eventually("it has ended", async () => (await tunnels(gateway)).open === 7);
  await open("192.0.2.7");
  clock.advance(1_000);
  const closed = Promise.race(left.map((each) => once(each, "close")));
  await open("192.0.2.8");
  await within("one of the client with the most closes", closed);
  expect(await tunnels(gateway)).toEqual({ opening: 0, open: 8 });
});

test("a client that has a tunnel is refused another one while none is free, and closes nobody's", async () => {
  const { open, refused, gateway, clock } = await stage(4);
  const all = [await open(a), await open(a), await open(b), await open(c)];
  clock.advance(60_000);
  expect(await refused(b)).toEqual([503, "This client has used up its share of the tunnels."]);
  expect(await metric(gateway, exceeded)).toBe(1);
  expect(all.every(({ readyState, OPEN }) => readyState === OPEN)).toBe(true);
});

test("where each client has one tunnel, one more client is refused as overloaded, and closes nobody's", async () => {
  const { open, refused, gateway, clock } = await stage(2);
  const all = [await open(a), await open(b)];
  clock.advance(60_000);
  expect(await refused(c)).toEqual([503, "The service is overloaded, please try again later."]);
  expect(await metric(gateway, exceeded)).toBe(0);
  expect(all.every(({ readyState, OPEN }) => readyState === OPEN)).toBe(true);
});
