// The timeout of a connection to the upstream: it counts the time in which this process could see the connection open.
import { expect, test } from "vitest";
import { openSocket } from "../../src/upstream/upstream-socket.ts";
import { useCleanup } from "../support/cleanup.ts";
import { startLoopbackServer } from "../support/loopback-server.ts";
import { unacceptingAddress } from "../support/unavailable.ts";

const cleanup = useCleanup();

function opened(url: string, timeoutMs: number): Promise<Error | null> {
  const { hostname: host, port } = new URL(url);
  return new Promise((resolve) => {
    openSocket({ host, port: Number(port), tls: null, timeoutMs }, (error, reader) => {
      if (reader !== null) cleanup(() => reader.socket.destroy());
      resolve(error);
    });
  });
}

test("a process that stands still for longer than the timeout has the connection that was opened meanwhile", async () => {
  const { url } = await startLoopbackServer(cleanup, () => {});
  const timeoutMs = 40;
  const opening = opened(url, timeoutMs);
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 3 * timeoutMs);
  expect(await opening).toBeNull();
});

test("a server that does not accept is given up", async () => {
  expect(await opened(await unacceptingAddress(cleanup), 40)).toMatchObject({ code: "UPSTREAM_CONNECT_TIMEOUT" });
});
