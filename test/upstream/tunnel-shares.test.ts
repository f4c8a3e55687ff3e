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
const [a, b, c] = ["192.0.2.1", "192.0.2.2", "192.0.2.3"];
const exceeded = 'headgate_client_share_exceeded_total{resource="tunnels"}';

async function stage(maxTunnels: number, maxClientSharePercent: number) {
  const clock = new FakeClock();
  const upgrade = { maxTunnels };
  const clientAddress = { trustedProxies: ["127.0.0.1"] };
  const echo = (socket: WebSocket): void => void socket.on("message", (data) => socket.send(data));
  const overrides = { upgrade, clientAddress, maxClientSharePercent };
  const staged = await stageWebSockets(cleanup, echo, overrides, {}, clock);
  return {
    ...staged,
    clock,
    open: (client: string) =>
      staged.open({ headers: { Authorization: "Bearer secret-token", "X-Forwarded-For": client } }),
    /** Opens what is refused, and returns the answer. */
    async refused(client: string) {
      const connection = new RawConnection(staged.gateway.traffic.port);
      cleanup(() => connection.destroy());
      const fields =
        "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: a\r\n";
      const forwarded = `Host: a\r\nAuthorization: Bearer t\r\nX-Forwarded-For: ${client}\r\n`;
      connection.write(`GET /v2/live HTTP/1.1\r\n${forwarded}${fields}\r\n`);
      const { status, body } = await connection.read();
      return [status, JSON.parse(body).errors[0].errMsg];
    },
  };
}

test("a client over its share loses the tunnel that is idle longest to one under its share", async () => {
  const { open, gateway, clock } = await stage(4, 50);
  const greedy: WebSocket[] = [];
  for (let i = 0; i < 4; i += 1) {
    greedy.push(await open(a));
    clock.advance(1_000);
  }
  const [first, second] = greedy as [WebSocket, WebSocket];
  const echoed = once(first, "message");
  first.send("still here");
  await within("its echo", echoed);
  clock.advance(1_000);
  const closed = once(second, "close");
  const other = await open(b);
  expect((await within("the second closes", closed))[0]).toBe(1006);
  const isOpen = greedy.map(({ readyState, OPEN }) => readyState === OPEN);
  expect(isOpen).toEqual([true, false, true, true]);
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

test("a client that has its share is refused when all are taken, and closes nobody's", async () => {
  const { open, refused, gateway, clock } = await stage(4, 50);
  const all = [await open(a), await open(a), await open(b), await open(b)];
  clock.advance(60_000);
  expect(await refused(a)).toEqual([503, "This client has its share of the tunnels, and all tunnels are in use."]);
  expect(await metric(gateway, exceeded)).toBe(1);
  expect(await refused(c), "nobody is over its share").toEqual([
    503,
    "The service is overloaded, please try again later.",
  ]);
  expect(await metric(gateway, exceeded)).toBe(1);
  expect(all.every(({ readyState, OPEN }) => readyState === OPEN)).toBe(true);
});

test("a client alone may have all tunnels, and its share is free again when they close", async () => {
  const { open, refused, gateway, clock } = await stage(4, 25);
  const all = [await open(a), await open(a), await open(a), await open(a)];
  clock.advance(60_000);
  expect(await refused(a)).toEqual([503, "The service is overloaded, please try again later."]);
  for (const client of all) client.close();
  await eventually("nothing is left", async () => (await tunnels(gateway)).open === 0);
  expect((await open(a)).readyState).toBe(1);
  await open(b);
  await open(b);
  await open(b);
  clock.advance(1_000);
  await open(c);
  expect(await metric(gateway, exceeded), "one of three is closed").toBe(1);
  expect(await tunnels(gateway)).toEqual({ opening: 0, open: 4 });
});
