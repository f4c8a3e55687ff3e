// SIGTERM to a busy gateway: 500 requests in flight, a steady load over kept connections, and a balancer that looks at
// the readiness before it opens one. None of them fails, and the process ends by itself, within its time.
import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { useCleanup } from "../../support/cleanup.ts";
import { eventually, within } from "../../support/eventually.ts";
import { type GatewayProcess, startGatewayProcess } from "../../support/gateway-process.ts";
import { valuesOf } from "../../support/raw-client.ts";
import { RawConnection } from "../../support/raw-connection.ts";
import { request, response } from "../../support/stage.ts";
import { startRawUpstream } from "../../support/upstream.ts";

const cleanup = useCleanup();
const inFlight = 500;
const clients = 24;
/** Longer than a busy machine stands still: the load has to know that the gateway is not ready before its port is closed. */
const delayMs = 6_000;
const timeoutMs = 20_000;

/** `/v2/held` is answered when the test says so, an upgrade is agreed to and echoed, everything else is served. */
async function start() {
  const held: (() => void)[] = [];
  let isReleased = false;
  const upstream = await startRawUpstream((socket, data) => {
    if (/\r\nupgrade: websocket/i.test(data.toString("latin1"))) {
      socket.write("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n");
    } else if (data.includes("/v2/held") && !isReleased) held.push(() => socket.write(response("held")));
    else socket.write(data.includes("HTTP/1.1") ? response("ok") : data);
  });
  cleanup(() => upstream.close());
  const settings = [
    `drain.delay=${delayMs}ms`,
    `drain.timeout=${timeoutMs}ms`,
    // Half of them are for one client.
    "upstream.maxConnections=2000",
    "log.access=false",
  ];
  const gateway = await startGatewayProcess(cleanup, upstream.url, settings);
  const release = (): void => {
    isReleased = true;
    for (const answer of held.splice(0)) answer();
  };
  return { gateway, heldNow: () => held.length, release };
}

interface Load {
  served: number;
  servedOnceNotReady: number;
  isReady: boolean;
  /** Requests that have no answer yet. */
  underWay: number;
  readonly failures: string[];
}

/** Keeps its connection until it is told to close it, and opens another as long as the gateway is ready. */
async function keepAsking(gateway: GatewayProcess, load: Load): Promise<void> {
  let client: RawConnection | null = null;
  for (;;) {
    if (client === null && !load.isReady) return;
    client ??= new RawConnection(gateway.port);
    client.write(request("/v2/x"));
    load.underWay += 1;
    try {
      const { status, rawHeaders } = await client.read();
      if (status !== 200) load.failures.push(`answered ${status}`);
      load.served += 1;
      if (!load.isReady) load.servedOnceNotReady += 1;
      if (valuesOf(rawHeaders, "Connection").includes("close")) client = null;
    } catch (error) {
      load.failures.push(String(error));
      client = null;
    }
    load.underWay -= 1;
    await sleep(Math.random() * 40);
  }
}

test("500 in flight and a steady load: nothing fails, readiness fails first, exit 0 in time", async () => {
  const { gateway, heldNow, release } = await start();
  const waiting = Array.from({ length: inFlight }, () => new RawConnection(gateway.port));
  for (const client of waiting) {
    cleanup(() => client.destroy());
    client.write(request("/v2/held"));
  }
  const load: Load = { served: 0, servedOnceNotReady: 0, isReady: true, underWay: 0, failures: [] };
  const asking = Array.from({ length: clients }, () => keepAsking(gateway, load));
  const tunnel = cleanup(new RawConnection(gateway.port));
  tunnel.write(request("/v2/tunnel", { fields: "Connection: Upgrade\r\nUpgrade: websocket\r\n" }));
  expect((await tunnel.readHead()).status).toBe(101);
  await eventually("all are held and load is served", () => heldNow() === inFlight && load.served > 200, 20_000);

  const signalledMs = performance.now();
  gateway.signal("SIGTERM");
  await eventually("readiness fails", async () => (await gateway.readiness()) === 503);
  // The port is still open, for a while after readiness has failed.
  const answer = await cleanup(new RawConnection(gateway.port)).ask(request("/v2/x"));
  expect(answer.status).toBe(200);
  expect(valuesOf(answer.rawHeaders, "Connection")).toEqual(["close"]);
  expect(performance.now() - signalledMs).toBeLessThan(delayMs);
  // What a balancer does, which takes some time to notice, and has requests under way then.
  await eventually("the balancer notices", () => {
    load.isReady = load.underWay === 0;
    return !load.isReady;
  });
  await within("the load has been told to leave", Promise.all(asking), delayMs);
  await eventually("the port is closed", () => isRefused(gateway.port), delayMs + 5_000);

  // Behind the closed port the tunnel goes on, and what was in flight is answered.
  tunnel.write("still there");
  await eventually("the tunnel answers", () => tunnel.rest === "still there");
  release();
  const answers = await Promise.all(waiting.map((client) => client.read({ deadlineMs: 15_000 })));
  expect(answers.filter(({ status, body }) => status !== 200 || body !== "held")).toEqual([]);
  expect(answers.every(({ rawHeaders }) => valuesOf(rawHeaders, "Connection").includes("close"))).toBe(true);
  expect(load.failures).toEqual([]);
  expect(load.servedOnceNotReady).toBeGreaterThan(0);
  tunnel.destroy();
  expect(await within("it exits", gateway.exited, timeoutMs)).toEqual({ code: 0, signal: null });
  expect(performance.now() - signalledMs).toBeLessThan(delayMs + timeoutMs);
  expect(gateway.output.err).toBe("");
  expect(gateway.output.out).not.toContain("broken off");
});

async function isRefused(port: number): Promise<boolean> {
  const socket = new RawConnection(port);
  const outcome = await Promise.race([socket.closed, sleep(50).then(() => "open")]);
  socket.destroy();
  return outcome === "ECONNREFUSED";
}
