// The attacks of `npm run bench:hostile`, against ports that read and never answer.
import { createServer, type Socket } from "node:net";
import { expect, test } from "vitest";
import type { Attack } from "../../bench/hostile/attack.ts";
import { attacks } from "../../bench/hostile/attacks.ts";
import { CountingSender } from "../../bench/hostile/sender.ts";
import { useCleanup } from "./cleanup.ts";
import { listen } from "./loopback-server.ts";

const cleanup = useCleanup();

test("every attack has a unique name that needs no quotes in a shell", () => {
  const names = attacks.map(({ name }) => name);
  expect(names.filter((name, i) => names.indexOf(name) !== i)).toEqual([]);
  expect(names.filter((name) => !/^[a-z0-9.-]+$/.test(name))).toEqual([]);
});

test("every attack sends something and stops by itself", async () => {
  const port = await startSink();
  const ports = { traffic: port, admin: port, checks: port, grpc: port };
  const sendsSomething = async ({ name, send }: Attack): Promise<boolean> => {
    const sender = new PatientSender({ name, ports, seconds: 0.2, share: 0.05 });
    await send(sender);
    return sender.hasSent;
  };
  const sent = await Promise.all(attacks.map(sendsSomething));
  expect(attacks.filter((_, i) => !sent[i]).map(({ name }) => name)).toEqual([]);
});

/**
 * Is over when its time has passed and it has sent something. A machine that stalls for that time, or is busy with the other
 * attacks, would leave none to send in.
 */
class PatientSender extends CountingSender {
  readonly #patientUntilMs = performance.now() + 10_000;

  get hasSent(): boolean {
    return this.counters.bytes > 0 && this.counters.connections > 0;
  }

  override get isOver(): boolean {
    return super.isOver && (this.hasSent || performance.now() >= this.#patientUntilMs);
  }
}

/** Closes what is still open at the end of the test. */
async function startSink(): Promise<number> {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on("error", () => {}).resume();
  });
  const port = await listen(server);
  cleanup(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return port;
}
