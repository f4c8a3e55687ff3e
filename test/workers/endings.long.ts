// How workers end under load: threads that fail again and again, and a second signal. Takes about 20 s.
import { once } from "node:events";
import { connect } from "node:net";
import { BroadcastChannel } from "node:worker_threads";
import { expect, test } from "vitest";
import { useCleanup } from "../support/cleanup.ts";
import { eventually } from "../support/eventually.ts";
import { startTestGateway, testSettings } from "../support/gateway.ts";
import { startGatewayProcess } from "../support/gateway-process.ts";
import { metric } from "../support/metrics.ts";
import { RawConnection } from "../support/raw-connection.ts";
import { request } from "../support/stage.ts";
import { deadUrl } from "../support/unavailable.ts";
import { startUpstream } from "../support/upstream.ts";
import { type Fault, faultChannel } from "./faulty-thread.ts";

const cleanup = useCleanup();
const threadEntry = new URL("./faulty-thread.ts", import.meta.url);
/** Without the second signal, requests in progress would end by then. */
const drainMs = 60_000;
const policies = testSettings(deadUrl).policies.map((policy) => ({ ...policy, limit: 1_000_000 }));

test("while threads end one after the other, connections to the others are served, and none is left behind", async () => {
  const upstream = cleanup(await startUpstream());
  const gateway = await startTestGateway({
    upstreamUrl: upstream.url,
    overrides: { workers: 3, policies, log: { access: false, level: "info" } },
    threadEntry,
  });
  cleanup(() => gateway.close());
  const channel = cleanup(new BroadcastChannel(faultChannel));
  const answers = { served: 0, lost: 0 };
  let isOver = false;
  const client = async (): Promise<void> => {
    while (!isOver) {
      const connection = new RawConnection(gateway.traffic.port);
      const status = await connection.ask(request("/v2/x")).then(
        (response) => response.status,
        () => null,
      );
      connection.destroy();
      if (status === null) answers.lost += 1;
      else {
        expect(status).toBe(200);
        answers.served += 1;
      }
    }
  };
  const clients = Array.from({ length: 8 }, client);
  for (let thread = 1; thread <= 6; thread += 1) {
    const { served } = answers;
    channel.postMessage({ thread, on: null, how: thread % 2 === 0 ? "exit" : "throw" } satisfies Fault);
    await expect.poll(() => metric(gateway, "headgate_worker_restarts_total"), { timeout: 10_000 }).toBe(thread);
    expect((await fetch(`${gateway.adminUrl}/readyz`)).status).toBe(200);
    await expect
      .poll(() => metric(gateway, 'headgate_workers{state="serving"}'), { timeout: 20_000, interval: 100 })
      .toBe(3);
    await eventually("a hundred more are served", () => answers.served > served + 100, 20_000);
  }
  isOver = true;
  await Promise.all(clients);
  // Those of the thread that ends, and those that the system had given to it.
  expect(answers.lost).toBeLessThan(answers.served / 10);
  await eventually("no connection is left", async () => (await metric(gateway, "headgate_client_connections")) === 0);
});

test("a second signal ends workers with a thousand connections and requests in progress at once", async () => {
  const upstream = cleanup(await startUpstream(() => {}));
  const gateway = await startGatewayProcess(cleanup, upstream.url, [
    "workers=2",
    `drain.timeout=${drainMs}ms`,
    "log.level=info",
  ]);
  for (let i = 0; i < 1_000; i += 1) {
    const socket = cleanup(connect(gateway.port, "127.0.0.1"));
    socket.on("error", () => {});
    await once(socket, "connect");
    if (i < 8) socket.write(request("/v2/x"));
  }
  const accepted = async () => (await gateway.figures()).get("headgate_client_connections");
  await eventually("all are accepted", async () => (await accepted()) === 1_000);
  await eventually("8 requests are in progress", () => upstream.hits() === 8);
  gateway.signal("SIGTERM");
  await eventually("it drains", () => gateway.output.out.includes('"msg":"draining"'));
  // One that arrives at once is a copy of the first.
  await new Promise((resolve) => setTimeout(resolve, 400));
  const signalledMs = performance.now();
  gateway.signal("SIGTERM");
  expect(await gateway.exited).toEqual({ code: 143, signal: null });
  expect(performance.now() - signalledMs).toBeLessThan(drainMs / 2);
});
