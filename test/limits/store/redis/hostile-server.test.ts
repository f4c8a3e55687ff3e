// Servers that are none, and connections that break: the call fails, the link comes back, and nothing else happens.
import { createServer, type Socket } from "node:net";
import { describe, expect, test } from "vitest";
import { useCleanup } from "../../../support/cleanup.ts";
import { eventually, within } from "../../../support/eventually.ts";
import { listen } from "../../../support/loopback-server.ts";
import { openWatched, settingsOf } from "./watched-link.ts";

const cleanup = useCleanup();

/** Answers ROLE and PING, by which a connection begins, unless it is silent; `onCall` does the rest. */
async function startFake(
  onCall: (socket: Socket, text: string) => void,
  onAccept?: (socket: Socket) => void,
  isSilent = false,
) {
  const pieces: string[] = [];
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on("error", () => {}).on("close", () => sockets.delete(socket));
    onAccept?.(socket);
    socket.on("data", (piece: Buffer) => {
      const text = String(piece);
      if (text.includes("\r\nrole\r\n") && !isSilent) socket.write("*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n+PONG\r\n");
      else {
        pieces.push(text);
        onCall(socket, text);
      }
    });
  });
  await listen(server);
  cleanup(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  const address = server.address();
  return { port: typeof address === "object" ? (address?.port ?? 0) : 0, pieces, sockets };
}

test("of sentinels that name different primaries, the one with the newer promotion is believed", async () => {
  const bulk = (text: string): string => `$${text.length}\r\n${text}\r\n`;
  const startSentinel = (port: number, epoch: number) => {
    const replies: Readonly<Record<string, string>> = {
      ping: "+PONG\r\n",
      "GET-MASTER-ADDR-BY-NAME": `*2\r\n${bulk("127.0.0.1")}${bulk(`${port}`)}`,
      MASTER: `*2\r\n${bulk("config-epoch")}${bulk(`${epoch}`)}`,
    };
    return startFake((socket, text) => {
      for (const word of text.split("\r\n")) socket.write(replies[word] ?? "");
    });
  };
  const [old, promoted] = [await startFake(() => {}), await startFake(() => {})];
  // Both are waited for, since one is no majority.
  const sentinels = [await startSentinel(old.port, 4), await startSentinel(promoted.port, 5)];
  const addresses = sentinels.map(({ port }) => ({ host: "127.0.0.1", port }));
  const user = { username: null, passwordFile: null };
  const watched = openWatched(cleanup, settingsOf(1, { servers: { kind: "sentinels", name: "a", addresses, user } }));
  await watched.connected();
  expect([old, promoted].map(({ sockets }) => sockets.size)).toEqual([0, 1]);
});

test("a server that names no run of its own may have ended with each connection", async () => {
  const { port, sockets } = await startFake((socket, text) => {
    const questions = text.split("*2\r\n$4\r\ninfo").length - 1;
    socket.write(`${"$17\r\nmaster_replid:abc\r\n".repeat(questions)}*2\r\n$4\r\nsave\r\n$0\r\n\r\n`);
  });
  const watched = openWatched(cleanup, settingsOf(port));
  const epochOf = async () => (await watched.identify()).identity?.epoch;
  await watched.connected();
  const first = await epochOf();
  expect(first).toMatch(/ abc$/);
  expect(await epochOf()).toBe(first);
  for (const socket of sockets) socket.destroy();
  await watched.connected(2);
  expect(await epochOf()).not.toBe(first);
});

describe("a reply", () => {
  test("is read in pieces of one byte", async () => {
    const { port } = await startFake(async (socket) => {
      for (const byte of "*2\r\n:7\r\n$3\r\nabc\r\n") {
        socket.write(byte);
        await new Promise(setImmediate);
      }
    });
    const watched = openWatched(cleanup, settingsOf(port));
    await watched.connected();
    expect((await watched.call("1")).reply).toEqual([7, "abc"]);
  });

  test("that is cut fails its call, which is not sent again", async () => {
    const { port, pieces } = await startFake((socket) => socket.end("*2\r\n:7\r\n$3\r\na"));
    const watched = openWatched(cleanup, settingsOf(port));
    await watched.connected();
    expect((await watched.call("1")).failure?.kind).toBe("unreachable");
    await watched.connected(2);
    expect(watched.seen).toEqual(["connected 0", "unreachable 0", "connected 0"]);
    expect(pieces).toHaveLength(1);
  });

  test.each([
    ["no protocol", "HTTP/1.1 400 Bad Request\r\n\r\n"],
    ["more than was asked for", "$-1\r\n$-1\r\n"],
    ["a list of four million", "*4000000\r\n"],
    ["a push", ">1\r\n$-1\r\n"],
    ["lists in lists", "*1\r\n".repeat(20_000)],
  ])("that is %s ends the connection", async (_, bytes) => {
    const { port } = await startFake((socket) => socket.write(bytes));
    const watched = openWatched(cleanup, settingsOf(port));
    await watched.connected();
    const { failure, reply } = await watched.call("1");
    // What came before the second reply was one.
    if (failure === null) expect(reply).toBeNull();
    else expect(failure.kind).toBe("unreachable");
    await watched.connected(2);
    expect(watched.seen[1]).toBe("unreachable 0");
  });

  test("without an end takes a bounded part of the memory", async () => {
    let written = 0;
    const { port } = await startFake((socket) => {
      const piece = Buffer.alloc(65_536, "x");
      const write = (): void => {
        while (!socket.destroyed && written < 1e9) {
          written += piece.length;
          if (!socket.write(piece)) return void socket.once("drain", write);
        }
      };
      socket.write("+");
      write();
    });
    const watched = openWatched(cleanup, settingsOf(port));
    await watched.connected();
    expect((await watched.call("1")).failure?.kind).toBe("unreachable");
    await eventually("the loss is told", () => watched.seen.includes("unreachable 0"));
    expect(written).toBeLessThan(64 * 1024 * 1024);
  });
});

test.each([
  ["220 mail.example ESMTP\r\n", "unreachable"],
  ["-DENIED Redis is running in protected mode because\r\n", "refused"],
  ["-ERR max number of clients reached\r\n", "unready"],
])("a server that says %j before it is asked is left", async (said, kind) => {
  const { port } = await startFake(
    () => {},
    (socket) => socket.end(said),
  );
  const watched = openWatched(cleanup, settingsOf(port));
  await eventually("it is told", () => watched.seen.length > 0);
  expect(watched.seen).toEqual([`${kind} 0`]);
});

const silent = () =>
  startFake(
    () => {},
    () => {},
    true,
  );
const tls = { caFile: null, certFile: null, keyFile: null, serverName: null };

test.each([
  ["answers no command", {}, "the server does not answer"],
  ["does not begin with TLS", { tls }, "no connection within the time for it"],
])("a server that %s is left when the time for a connection is over", async (_, more, detail) => {
  const { port } = await silent();
  const watched = openWatched(cleanup, settingsOf(port, more), 100);
  await eventually("two attempts have failed", () => watched.failedAttempts.length > 1);
  expect(watched.failedAttempts.slice(0, 2)).toEqual(["unreachable 0", "unreachable 0"]);
  expect((await watched.call("1")).failure?.detail).toBe(`127.0.0.1:${port}: ${detail}`);
});

test.each([
  ["a server that never answers", {}],
  ["one that does not begin with TLS", { tls }],
])("close does not wait for %s", async (_, more) => {
  const { port, pieces } = await silent();
  const watched = openWatched(cleanup, settingsOf(port, more), 600_000);
  await eventually("it was asked", () => pieces.length > 0);
  await within("the end", watched.link.close());
  expect(watched.seen).toEqual([]);
  expect(watched.failedAttempts).toEqual([]);
});

test("the calls of one turn leave in one write", async () => {
  const { port, pieces } = await startFake((socket, text) =>
    socket.write(":1\r\n".repeat(text.split("evalsha").length - 1)),
  );
  const watched = openWatched(cleanup, settingsOf(port));
  await watched.connected();
  const answers = await Promise.all(Array.from({ length: 16 }, () => watched.call("1")));
  expect(answers.every(({ reply }) => reply === 1)).toBe(true);
  expect(pieces).toHaveLength(1);
});

test("calls that have no answer are bounded", async () => {
  const { port } = await startFake(() => {});
  const watched = openWatched(cleanup, settingsOf(port));
  await watched.connected();
  const outcomes: (string | undefined)[] = [];
  for (let i = 0; i < 1_030; i += 1) {
    watched.link.call(0, ["{0}k"], [], (_, failure) => outcomes.push(failure?.detail));
  }
  expect(outcomes).toEqual([]);
  await eventually("the last ones fail", () => outcomes.length === 6);
  expect(outcomes[0]).toBe("1024 calls have no answer");
  watched.link.reconnect(0);
  await eventually("the others fail", () => outcomes.length === 1_030);
});

test("nothing is left after close", async () => {
  const { port } = await startFake(() => {});
  const open = (kind: string): number => process.getActiveResourcesInfo().filter((other) => other === kind).length;
  // Those of other tests may still be closing.
  const sockets = open("TCPSocketWrap");
  const timers = open("Timeout");
  for (const wait of ["none", "connected", "stopped"]) {
    const watched = openWatched(cleanup, settingsOf(wait === "stopped" ? 1 : port));
    if (wait === "connected") await watched.connected();
    if (wait === "stopped") await eventually("a try has failed", () => watched.seen.length > 0);
    const lost = watched.call("1");
    await watched.link.close();
    expect((await lost).failure?.kind).toBe("unreachable");
    await eventually("nothing is left", () => open("TCPSocketWrap") <= sockets && open("Timeout") <= timers);
  }
});
