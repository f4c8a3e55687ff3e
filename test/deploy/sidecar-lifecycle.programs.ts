// The life of a pod with the sidecar, from its manifests: the gateway is up before the application starts, and when the
// pod is deleted in the middle of everything, nothing of it is lost and nothing is killed.
import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { useCleanup } from "../support/cleanup.ts";
import { eventually, within } from "../support/eventually.ts";
import { valuesOf } from "../support/raw-client.ts";
import { RawConnection } from "../support/raw-connection.ts";
import { request } from "../support/stage.ts";
import { type ActedPod, scale, startPod } from "./acted-pod.ts";

const cleanup = useCleanup();
/** Most of it is the time that the pod has to end. */
const timeout = 60_000;

interface Load {
  /** Whether the Service still sends new connections to the pod. */
  isListed: boolean;
  served: number;
  readonly failures: string[];
}

/** A client that keeps its connection until it is told to leave, as ingresses and balancers do. */
async function keepAsking(port: number, load: Load): Promise<void> {
  let client: RawConnection | null = null;
  for (;;) {
    if (client === null && !load.isListed) return;
    client ??= new RawConnection(port);
    client.write(request("/v2/x"));
    try {
      const { status, rawHeaders } = await client.read();
      if (status === 200) load.served += 1;
      else load.failures.push(`answered ${status}`);
      if (valuesOf(rawHeaders, "Connection").includes("close")) client = null;
    } catch (error) {
      load.failures.push(String(error));
      client = null;
    }
    await sleep(10);
  }
}

function startLoad({ gateway }: ActedPod): { load: Load; done: Promise<unknown> } {
  const load: Load = { isListed: true, served: 0, failures: [] };
  const clients = Array.from({ length: 8 }, () => keepAsking(gateway.port, load));
  return { load, done: Promise.all(clients) };
}

/** The node hears of the deletion at once; whoever sends to the pod hears of it two seconds later. */
async function unlist(load: Load): Promise<void> {
  await sleep(2_000 / scale);
  load.isListed = false;
}

test("SIGTERM in the middle of everything: nothing is lost, the gateway goes first, all within the grace period", {
  timeout,
}, async () => {
  const pod = await startPod(cleanup);
  expect(pod.events).toEqual(["gateway started", "startup probe succeeded", "application started", "ready"]);
  const { load, done } = startLoad(pod);
  await eventually("load is served", () => load.served > 50, timeout);

  // The application still sends to one client, and is still being sent to by another.
  const [reader, writer] = [new RawConnection(pod.gateway.port), new RawConnection(pod.gateway.port)];
  cleanup(() => reader.destroy());
  cleanup(() => writer.destroy());
  reader.write(request("/v2/slow"));
  expect((await reader.readHead()).status).toBe(200);
  const size = 40 * 1_000;
  writer.write(request("/v2/upload", { method: "POST", fields: `Content-Length: ${size}\r\n` }));
  const deleted = pod.delete();
  await Promise.all([unlist(load), sendSlowly(writer, size)]);
  const answer = await writer.read();
  expect([answer.status, answer.body]).toEqual([200, `${size} bytes`]);
  await within("the reader has it all", reader.closed);
  expect(reader.rest).toContain("piece 11");
  expect(reader.rest).toContain("0 bytes\r\n0\r\n\r\n");

  await within("the load has left", done);
  const { tookMs, graceMs } = await deleted;
  expect(load.failures).toEqual([]);
  expect(pod.events.slice(4)).toEqual(["deleted", "gateway gone", "application told", "application gone"]);
  expect(await pod.gateway.exited).toEqual({ code: 0, signal: null });
  expect(pod.gateway.output.out).not.toContain("broken off");
  expect(tookMs).toBeLessThan(graceMs);
});

/** Longer than the drain's delay, so that the drain waits for it. */
async function sendSlowly(writer: RawConnection, size: number): Promise<void> {
  for (let sent = 0; sent < size; sent += size / 10) {
    writer.write("x".repeat(size / 10));
    await sleep(450);
  }
}

test("without the hooks the same deletion loses requests, so the test above would see it", { timeout }, async () => {
  const pod = await startPod(cleanup);
  const { load, done } = startLoad(pod);
  await eventually("load is served", () => load.served > 50, timeout);
  const deleted = pod.delete({ runHooks: false });
  await unlist(load);
  await within("the load has left", done);
  await deleted;
  expect(load.failures).toContain("answered 502");
  expect(pod.events.slice(4)).toEqual(["deleted", "application told", "application gone", "gateway gone"]);
});

test("a gateway that does not come up keeps the application from being started", async () => {
  await expect(startPod(cleanup, ["upstream.url=nonsense"])).rejects.toThrow("exited with 78");
});
