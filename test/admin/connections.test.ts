// What peers can hold open on the admin listener, and that probes are answered meanwhile.
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { expect, test } from "vitest";
import { answerTimeoutMs, maxAdminConnections } from "../../src/admin/connections.ts";
import type { Admin } from "../../src/admin/server.ts";
import { useCleanup } from "../support/cleanup.ts";
import { eventually, within } from "../support/eventually.ts";
import { openAdmin } from "./api-stage.ts";

const cleanup = useCleanup();
const get = (path: string) => `GET ${path} HTTP/1.1\r\nHost: a\r\n\r\n`;

async function start(body = "x 1\n"): Promise<Admin & { shed: () => number; scrapes: () => number }> {
  let [shed, scrapes] = [0, 0];
  const admin = await openAdmin(cleanup, {
    metrics: async () => {
      scrapes += 1;
      return { contentType: "text/plain", body };
    },
    onClosedForRoom: () => {
      shed += 1;
    },
  });
  return { ...admin, shed: () => shed, scrapes: () => scrapes };
}

interface Peer {
  readonly socket: Socket;
  readonly text: () => string;
  readonly isClosed: () => boolean;
}

async function open({ port }: Admin, localAddress: string, bytes = "", reads = true): Promise<Peer> {
  const socket = cleanup(connect({ port, host: "127.0.0.1", localAddress }));
  let text = "";
  let isClosed = false;
  socket
    .on("error", () => {})
    .on("close", () => {
      isClosed = true;
    });
  if (reads)
    socket.on("data", (data) => {
      text += data;
    });
  await once(socket, "connect");
  socket.write(bytes);
  return { socket, text: () => text, isClosed: () => isClosed };
}

const isAlive = async (admin: Admin, localAddress: string): Promise<void> => {
  const probe = await open(admin, localAddress, get("/livez"));
  await eventually("the probe is answered", () => probe.text().endsWith('{"status":"alive"}'));
  probe.socket.destroy();
};

test.each([
  ["silent", ""],
  ["in the middle of a head", "GET /livez HTTP/1.1\r\nHost: "],
  ["idle after a request", get("/livez")],
])(
  "probes are answered while all connections are held %s; the longest idle one of the peer with the most goes",
  async (_, bytes) => {
    const admin = await start();
    const scraper = await open(admin, "127.0.0.3", get("/livez"));
    const held: Peer[] = [];
    // One peer gets half of the connections; each of the others has one.
    for (let i = 0; i < maxAdminConnections - 1; i += 1) {
      held.push(await open(admin, i < maxAdminConnections / 2 ? "127.0.0.2" : `127.0.1.${i}`, bytes));
    }
    if (bytes === get("/livez")) for (const { text } of held) await eventually("it is answered", () => text() !== "");
    expect(admin.shed()).toBe(0);
    for (const [i, address] of ["127.0.0.1", "127.0.0.2"].entries()) {
      await isAlive(admin, address);
      await eventually("the oldest was closed", () => held[i]?.isClosed() === true);
      expect(admin.shed()).toBe(i + 1);
    }
    const others = held.slice(2);
    expect([scraper, ...others].filter(({ isClosed }) => isClosed())).toEqual([]);
    scraper.socket.write(get("/livez"));
    await eventually("the scraper is answered on its connection", () => scraper.text().split("alive").length === 3);
  },
);

test("a peer that reads none of its scrapes keeps no other from its probes and its scrapes", async () => {
  // More than the kernel takes for a peer that does not read (4 MB), but not much more: each answer is copied.
  const body = "x".repeat(6_000_000);
  const admin = await start(body);
  const scraper = await open(admin, "127.0.0.3", get("/metrics"), false);
  await eventually("its scrape is written", () => admin.scrapes() === 1);
  for (let i = 0; i < maxAdminConnections + 8; i += 1) await open(admin, "127.0.0.2", get("/metrics"), false);
  for (const address of ["127.0.0.1", "127.0.0.2", "127.0.0.4"]) await isAlive(admin, address);
  let received = 0;
  scraper.socket.on("data", ({ length }) => {
    received += length;
  });
  await eventually("the scrape arrives whole", () => received > body.length);
});

test("a connection has two requests at once; with one more it is closed, and what follows is not served", async () => {
  const admin = await start();
  const both = await open(admin, "127.0.0.1", get("/livez").repeat(2));
  await eventually("both are answered", () => both.text().split(`"status":"alive"`).length === 3);
  const flood = await open(admin, "127.0.0.1", get("/metrics").repeat(1_000));
  await eventually("it is closed", flood.isClosed);
  expect(admin.scrapes()).toBeLessThanOrEqual(1);
  expect(both.isClosed()).toBe(false);
});

test.each([
  ["Content-Length: 9", "connection: close"],
  ["Transfer-Encoding: chunked", "connection: close"],
  ["Content-Length: 0", "connection: keep-alive"],
])("a GET with %s is answered with %s", async (field, expected) => {
  const admin = await start();
  const { text, isClosed } = await open(admin, "127.0.0.1", get("/livez").replace("\r\n\r\n", `\r\n${field}\r\n\r\n`));
  await eventually("it is answered", () => text().endsWith('{"status":"alive"}'));
  expect(text().toLowerCase()).toContain(`\r\n${expected}\r\n`);
  if (expected.endsWith("close")) await eventually("it is closed", isClosed);
  else expect(isClosed()).toBe(false);
});

test("an answer has 30 s to be read, however steadily, and an idle connection has more", async ({ onTestFinished }) => {
  const { vi } = await import("vitest");
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  onTestFinished(() => void vi.useRealTimers());
  const admin = await start("x".repeat(10_000_000));
  const slow = cleanup(connect(admin.port, "127.0.0.1"));
  const closed = once(
    slow.on("error", () => {}),
    "close",
  );
  slow.pause();
  slow.write(get("/metrics"));
  while (admin.scrapes() === 0) await new Promise((resolve) => void setImmediate(resolve));
  vi.advanceTimersByTime(answerTimeoutMs - 1);
  expect(slow.destroyed).toBe(false);
  vi.advanceTimersByTime(1);
  vi.useRealTimers();
  slow.resume();
  await within("it is closed", closed);
});
