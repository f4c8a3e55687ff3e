// What holds for shared reads of plain connections and of those over TLS.
import { createServer as createHttpServer } from "node:http";
import { describe, expect, test } from "vitest";
import { useCleanup } from "../support/cleanup.ts";
import { collected, kinds, once, openPair, poll, text } from "./pair.ts";

const cleanup = useCleanup();

describe.each(kinds)("over %s", (kind) => {
  test("a paused socket is not read, so that its client cannot send more than the kernel holds", async () => {
    const { client, accepted, reads } = await openPair(cleanup, kind);
    let read = 0;
    reads.take(accepted, (bytes) => {
      read += bytes.length;
      accepted.pause();
    });
    const chunk = Buffer.alloc(1024 * 1024);
    let sent = 0;
    while (client.write(chunk) || sent < 64) sent += 1;
    await poll(() => read).toBeGreaterThan(0);
    for (let turn = 0; turn < 20; turn += 1) await new Promise(setImmediate);
    expect(read).toBeLessThanOrEqual(64 * 1024);
    expect(client.writableLength).toBeGreaterThan(0);
    const all = client.writableLength;
    const before = read;
    accepted.resume();
    // Over TLS, one read may be a part of the 64 KiB.
    await poll(() => read).toBeGreaterThan(kind === "TCP" ? 64 * 1024 : before);
    expect(client.writableLength).toBeLessThanOrEqual(all);
  });

  test("nothing is lost over many pauses and resumes", async () => {
    const { client, accepted, reads } = await openPair(cleanup, kind);
    const sent = Buffer.from(Array.from({ length: 400_000 }, (_, i) => (i * 7 + (i >> 8)) & 0xff));
    const received: Buffer[] = [];
    let reading = 0;
    reads.take(accepted, (bytes) => {
      received.push(Buffer.from(bytes));
      reading += 1;
      if (reading % 3 === 0) return;
      accepted.pause();
      if (reading % 3 === 1) setImmediate(() => accepted.resume());
      else process.nextTick(() => accepted.resume());
    });
    for (let at = 0; at < sent.length; at += 1_000) client.write(sent.subarray(at, at + 1_000));
    client.end();
    await once(accepted, "end");
    expect(Buffer.concat(received).equals(sent)).toBe(true);
  });

  test("a client that ends its side gets a long answer whole", async () => {
    const { client, accepted, reads } = await openPair(cleanup, kind);
    const { all, onBytes } = collected();
    reads.take(accepted, onBytes);
    const answer = text(client);
    client.end("question");
    await once(accepted, "end");
    expect(all()).toBe("question");
    expect(accepted.writable).toBe(true);
    accepted.end("a".repeat(3_000_000));
    expect((await answer).length).toBe(3_000_000);
  });

  test("Node's HTTP server takes a released socket over, also for an Upgrade after which it lets it go", async () => {
    const { client, accepted, reads } = await openPair(cleanup, kind);
    const web = createHttpServer((req, res) => {
      let body = "";
      req.on("data", (piece) => {
        body += piece;
      });
      req.on("end", () => res.end(`[${body}]`));
    });
    web.on("upgrade", (_, socket, head) => {
      socket.write(`switched ${head}`);
      socket.on("data", (piece: Buffer) => socket.write(`echo ${piece} `));
    });
    reads.take(accepted, (bytes) => {
      reads.release(accepted, bytes);
      web.emit("connection", accepted);
      accepted.resume();
    });
    let answered = "";
    client.on("data", (piece: Buffer) => {
      answered += piece.toString("latin1");
    });
    client.write("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nab");
    await poll(() => accepted.bytesRead).toBeGreaterThan(0);
    client.write("cde");
    await poll(() => answered).toContain("[abcde]");
    client.write("GET / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\nearly");
    await poll(() => answered).toContain("switched early");
    client.write("late");
    await poll(() => answered).toContain("echo late");
  });
});
