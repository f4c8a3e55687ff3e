// The attacks of `npm run bench:hostile`, against ports that read and never answer.
import { once } from "node:events";
import { type AddressInfo, createServer, type Socket } from "node:net";
import { expect, test } from "vitest";
import type { Attack } from "../../bench/hostile/attack.ts";
import { attacks } from "../../bench/hostile/attacks.ts";
import { CountingSender } from "../../bench/hostile/sender.ts";
import { useCleanup } from "./cleanup.ts";

const cleanup = useCleanup();

test("every attack has a unique name that needs no quotes in a shell", () => {
  const names = attacks.map(({ name }) => name);
  expect(names.filter((name, i) => names.indexOf(name) !== i)).toEqual([]);
  expect(names.filter((name) => !/^[a-z0-9.-]+$/.test(name))).toEqual([]);
});

test("every attack sends something and stops by itself", async () => {
  const port = await startSink();
  const ports = { traffic: port, admin: port, checks: port, grpc: port };
  const sendsNothing = async ({ name, send }: Attack, seconds: number): Promise<boolean> => {
    const sender = new CountingSender({ name, ports, seconds, share: 0.05 });
    await send(sender);
    const { bytes, connections } = sender.counters;
    return bytes === 0 || connections === 0;
  };
  const sentNothing = await Promise.all(attacks.map((attack) => sendsNothing(attack, 1)));
  // On a busy machine some do not get to their first byte in this second, and get another chance alone.
  for (const attack of attacks.filter((_, i) => sentNothing[i])) {
    expect(await sendsNothing(attack, 3), attack.name).toBe(false);
  }
});

/** Closes what is still open at the end of the test. */
async function startSink(): Promise<number> {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on("error", () => {}).resume();
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  cleanup(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return (server.address() as AddressInfo).port;
}
