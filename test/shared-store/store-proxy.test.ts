// The proxy does what its commands say: a fault that is none would let every test of one pass.
import { once } from "node:events";
import { connect, createServer, type Socket } from "node:net";
import { expect, test } from "vitest";
import { useCleanup } from "../support/cleanup.ts";
import { eventually } from "../support/eventually.ts";
import { listen } from "../support/loopback-server.ts";
import { startStoreProxy } from "./store-proxy.ts";

const cleanup = useCleanup();

test("passes, delays, throttles, holds, cuts and refuses", async () => {
  const server = createServer((socket) => socket.on("error", () => {}).on("data", (data) => socket.write(data)));
  await listen(cleanup(server));
  const address = server.address();
  const proxy = await startStoreProxy(cleanup, typeof address === "object" ? (address?.port ?? 0) : 0);
  let echoed = "";
  let ends = 0;
  const dial = (): Socket => {
    const socket = cleanup(connect(proxy.port, "127.0.0.1"));
    socket.on("data", (data) => {
      echoed += data.toString();
    });
    socket
      .on("error", () => {})
      .on("close", () => {
        ends += 1;
      });
    return socket;
  };
  const socket = dial();
  const echo = async (text: string): Promise<number> => {
    const sentMs = performance.now();
    const expected = echoed + text;
    socket.write(text);
    await eventually("the echo comes", () => echoed === expected);
    return performance.now() - sentMs;
  };
  await echo("a");
  await proxy.fault({ delayMs: 20 });
  expect(await echo("b")).toBeGreaterThanOrEqual(39);
  await proxy.fault({ bytesPerSecond: 1_000 });
  expect(await echo("c".repeat(30))).toBeGreaterThanOrEqual(59);
  await proxy.fault({ isHeld: true });
  const before = echoed;
  socket.write("d");
  const late = dial();
  await once(late, "connect");
  // An echo takes far less time than these turns of the thread.
  for (let i = 0; i < 20; i += 1) await proxy.fault({ isHeld: true });
  expect(echoed).toBe(before);
  await proxy.fault({});
  await eventually("what was held comes", () => echoed === `${before}d`);
  expect(ends).toBe(0);
  await proxy.cut();
  await eventually("both have ended", () => ends === 2);
  await proxy.fault({ isRefused: true });
  dial();
  await eventually("the third is refused", () => ends === 3);
});
