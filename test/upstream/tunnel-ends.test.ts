// What the log says when a tunnel ends: why, and how much each side sent; nothing of what it was.
import type { Socket } from "node:net";
import { expect, test, vi } from "vitest";
import type { Policy } from "../../src/core/policy.ts";
import { useCleanup } from "../support/cleanup.ts";
import { eventually } from "../support/eventually.ts";
import type { Overrides } from "../support/gateway.ts";
import { metric } from "../support/metrics.ts";
import { slidingPolicy } from "../support/policy.ts";
import { request, stageRaw } from "../support/stage.ts";
import { holdTimers } from "../support/timers.ts";

const cleanup = useCleanup();
const offer = request("/v2/live", { fields: "Connection: Upgrade\r\nUpgrade: websocket\r\n" });
const switched = "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n";

/** A tunnel through which the client has sent nine bytes and the upstream seven. */
async function openTunnel(overrides: Overrides) {
  holdTimers(cleanup);
  let upstream: Socket | undefined;
  const staged = await stageRaw(
    cleanup,
    (socket, data) => {
      upstream = socket;
      if (/\r\nupgrade: /i.test(data.toString("latin1"))) socket.write(`${switched}welcome`);
    },
    overrides,
  );
  const client = staged.connect().write(`${offer}early`);
  expect((await client.readHead()).status).toBe(101);
  await eventually("the upstream is heard", () => client.rest === "welcome");
  client.write("late");
  await eventually("the client is heard", () => staged.upstream.bytes().endsWith("earlylate"));
  return { ...staged, client, upstreamSocket: upstream as unknown as Socket };
}

test("an open tunnel holds its slot, and no unit that is charged by another status", async () => {
  const windowMs = 60_000;
  const slots: Policy = { ...slidingPolicy({ name: "slots", limit: 2, windowMs }), rate: { kind: "concurrency" } };
  const failures = slidingPolicy({ name: "failures", limit: 2, windowMs, chargeStatuses: [401] });
  const { client, gateway } = await openTunnel({ policies: [slots, failures] });
  const tracked = (name: string) => metric(gateway, `headgate_clients_tracked{policy="${name}"}`);
  expect([await tracked("slots"), await tracked("failures")]).toEqual([1, 0]);
  client.socket.end();
  await eventually("the tunnel is over", () => gateway.logLines.some(({ msg }) => msg === "tunnel ended"));
  expect(await tracked("slots")).toBe(0);
});

const idleTimeoutMs = 60_000;
type Tunnelled = Awaited<ReturnType<typeof openTunnel>>;
const ends: readonly { reason: string; end: (tunnel: Tunnelled) => unknown; overrides?: Overrides }[] = [
  { reason: "client_closed", end: ({ client }) => client.socket.end() },
  { reason: "client_broken", end: ({ client }) => client.socket.resetAndDestroy() },
  { reason: "upstream_closed", end: ({ upstreamSocket }) => upstreamSocket.end() },
  { reason: "upstream_broken", end: ({ upstreamSocket }) => upstreamSocket.resetAndDestroy() },
  {
    reason: "idle",
    end: () => void vi.advanceTimersByTime(idleTimeoutMs),
    overrides: { upgrade: { idleTimeoutMs } },
  },
  { reason: "drain", end: ({ gateway }) => gateway.drain() },
];

test.each(ends)("a tunnel that ends by $reason is one line that says so", async ({ reason, end, overrides = {} }) => {
  const tunnel = await openTunnel(overrides);
  const lines = () => tunnel.gateway.logLines.filter(({ msg }) => msg === "tunnel ended");
  expect(lines()).toEqual([]);
  await end(tunnel);
  // What follows from the end of one side is no reason.
  await eventually("it is told", () => lines().length > 0);
  const id = tunnel.gateway.logLines.find(({ status }) => status === 101)?.["id"];
  expect(id).toEqual(expect.stringMatching(/./));
  expect(lines()).toEqual([
    {
      level: "info",
      time: expect.any(Number),
      msg: "tunnel ended",
      id,
      reason,
      durationMs: expect.any(Number),
      clientBytes: 9,
      upstreamBytes: 7,
    },
  ]);
});

test("with the access log off a tunnel's end is not logged either", async () => {
  const { gateway, client, upstream } = await openTunnel({ log: { access: false } });
  client.destroy();
  await eventually("the upstream's side is closed", () => upstream.sockets.size === 0);
  await gateway.close();
  expect(gateway.logLines.filter(({ msg }) => msg === "tunnel ended")).toEqual([]);
});
