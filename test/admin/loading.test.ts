// The admin listener before what answers is loaded: connections wait, within the bounds of the listener.
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { expect, test } from "vitest";
import { openAdminApp } from "../../src/admin/app.ts";
import { maxAdminConnections } from "../../src/admin/connections.ts";
import { type Admin, type OpenApp, startAdmin } from "../../src/admin/server.ts";
import { systemClock } from "../../src/core/clock.ts";
import { useCleanup } from "../support/cleanup.ts";
import { eventually } from "../support/eventually.ts";

const cleanup = useCleanup();
const probe = "GET /livez HTTP/1.1\r\nHost: a\r\n\r\n";

interface Stage extends Admin {
  /** Lets what waits for the app go on. */
  readonly load: () => void;
  readonly loads: () => number;
  readonly failures: unknown[];
  readonly shed: () => number;
}

/** `failing`: how many attempts to load fail. */
async function start(failing = 0): Promise<Stage> {
  let [loads, shed] = [0, 0];
  const failures: unknown[] = [];
  const gates: (() => void)[] = [];
  const open: OpenApp = async (...args) => {
    loads += 1;
    await new Promise<void>((resolve) => void gates.push(resolve));
    if (loads <= failing) throw new Error("no such module");
    return openAdminApp(...args);
  };
  const admin = await startAdmin(
    {
      host: "127.0.0.1",
      port: 0,
      clock: systemClock,
      metrics: async () => ({ contentType: "text/plain", body: "x 1\n" }),
      isAlive: async () => true,
      ...{ api: null, certificate: null, socket: null },
      health: () => ({
        status: "ready",
        upstream: { state: "up", reason: null },
        store: null,
        rules: null,
        tokens: null,
      }),
      onError: (error) => expect.unreachable(error.message),
      onFailure: (error) => void failures.push(error),
      peerKey: (address) => address ?? "",
      onClosedForRoom: () => {
        shed += 1;
      },
    },
    open,
  );
  const load = () => {
    for (const go of gates.splice(0)) go();
  };
  cleanup(async () => {
    load();
    await admin.close();
  });
  return { ...admin, load, loads: () => loads, failures, shed: () => shed };
}

interface Peer {
  readonly socket: Socket;
  text: string;
  isClosed: boolean;
}

async function ask({ port }: Admin, localAddress = "127.0.0.1", bytes = probe): Promise<Peer> {
  const socket = connect({ port, host: "127.0.0.1", localAddress });
  cleanup(() => socket.destroy());
  const peer: Peer = { socket, text: "", isClosed: false };
  socket
    .on("error", () => {})
    .on("data", (data) => {
      peer.text += data;
    });
  socket.once("close", () => {
    peer.isClosed = true;
  });
  await once(socket, "connect");
  socket.write(bytes);
  return peer;
}

test("nothing is loaded before a connection comes; all that wait are answered, and it is loaded once", async () => {
  const admin = await start();
  expect(admin.loads()).toBe(0);
  const peers = [await ask(admin), await ask(admin), await ask(admin, "127.0.0.2")];
  await eventually("it is being loaded", () => admin.loads() === 1);
  admin.load();
  for (const peer of peers) await eventually("it is answered", () => peer.text.endsWith('{"status":"alive"}'));
  const later = await ask(admin);
  await eventually("a later one is answered", () => later.text.endsWith('{"status":"alive"}'));
  expect(admin.loads()).toBe(1);
});

test("as many wait as the listener has places, and a peer with one keeps it", async () => {
  const admin = await start();
  const scraper = await ask(admin, "127.0.0.3");
  const flood: Peer[] = [];
  for (let i = 0; i < 2 * maxAdminConnections; i += 1) flood.push(await ask(admin, "127.0.0.2"));
  const excess = 1.5 * maxAdminConnections;
  await eventually("those over half of the places are closed", () => admin.shed() === excess);
  const others: Peer[] = [scraper];
  while (others.length < maxAdminConnections / 2) others.push(await ask(admin, `127.0.1.${others.length}`));
  const late = await ask(admin, "127.0.0.4");
  await eventually("for one more, another one is closed", () => admin.shed() === excess + 1);
  await eventually("the oldest went", () => flood.slice(0, excess + 1).every(({ isClosed }) => isClosed));
  admin.load();
  for (const peer of [...others, late, ...flood.slice(excess + 1)]) {
    await eventually("it is answered", () => peer.text.endsWith('{"status":"alive"}'));
  }
});

test("what a waiting peer sends stays in the kernel", async () => {
  const admin = await start();
  const peer = await ask(admin, "127.0.0.1", "x".repeat(64 * 1024 * 1024));
  await eventually("it is being loaded", () => admin.loads() === 1);
  // Both sides' buffers in the kernel hold a few MiB on loopback.
  expect(peer.socket.writableLength).toBeGreaterThan(32 * 1024 * 1024);
  admin.load();
  await eventually("it is refused", () => peer.text.startsWith("HTTP/1.1 400 ") || peer.isClosed);
});

test("a close waits for what is being loaded, and closes those that wait", async () => {
  const admin = await start();
  const peer = await ask(admin);
  await eventually("it is being loaded", () => admin.loads() === 1);
  const closed = admin.close();
  await eventually("it is closed", () => peer.isClosed);
  admin.load();
  await closed;
  expect(peer.text).toBe("");
});

test("if loading fails, that is reported, those that wait are closed, and the next one tries again", async () => {
  const admin = await start(1);
  const peer = await ask(admin);
  await eventually("it is being loaded", () => admin.loads() === 1);
  admin.load();
  await eventually("it is closed", () => peer.isClosed);
  expect(admin.failures).toEqual([new Error("no such module")]);
  const next = await ask(admin);
  await eventually("it is loaded again", () => admin.loads() === 2);
  admin.load();
  await eventually("it is answered", () => next.text.endsWith('{"status":"alive"}'));
});
