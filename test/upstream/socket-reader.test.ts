// What is kept of a read is not read over, and takes about as much memory as it has bytes.
import { once } from "node:events";
import { connect, createServer, type Socket } from "node:net";
import { expect, test } from "vitest";
import { SocketReader } from "../../src/upstream/upstream-socket.ts";
import { useCleanup } from "../support/cleanup.ts";
import { within } from "../support/eventually.ts";
import { listen } from "../support/loopback-server.ts";

const cleanup = useCleanup();

/** The reader's end of a connection, and the other one. */
async function connectPair(): Promise<{ reader: SocketReader; writer: Socket }> {
  const server = cleanup(createServer());
  const port = await listen(server);
  const accepted = once(server, "connection");
  const reader = SocketReader.open((onread) => connect({ host: "127.0.0.1", port, onread }), true);
  cleanup(() => void reader.socket.destroy());
  const [writer] = (await accepted) as [Socket];
  cleanup(() => void writer.destroy());
  return { reader, writer };
}

/** Sends each piece when the one before has been read; returns them as they are in the end. */
async function readEach(pieces: readonly Buffer[], isKept: (index: number) => boolean): Promise<Buffer[]> {
  const { reader, writer } = await connectPair();
  const read: Buffer[] = [];
  let left = 0;
  let next = 0;
  const done = new Promise<void>((resolve) => {
    const send = (): void => {
      const piece = pieces[next];
      if (piece === undefined) {
        resolve();
        return;
      }
      left = piece.length;
      writer.write(piece);
    };
    reader.start((bytes) => {
      const kept = isKept(next);
      if (kept) read.push(bytes);
      left -= bytes.length;
      if (left === 0) {
        next += 1;
        send();
      }
      return kept ? "kept" : "read";
    });
    send();
  });
  await within("all is read", done);
  return read;
}

const small = Array.from({ length: 1_000 }, (_, i) => Buffer.alloc(1 + (i % 100), i % 251));

test("small pieces that are kept share their memory", async () => {
  const read = await readEach(small, () => true);
  expect(Buffer.concat(read).equals(Buffer.concat(small))).toBe(true);
  const buffers = new Set(read.map(({ buffer }) => buffer));
  const pinnedBytes = [...buffers].reduce((sum, { byteLength }) => sum + byteLength, 0);
  expect(pinnedBytes).toBeLessThanOrEqual(2 * Buffer.concat(small).length + 64 * 1024);
});

test("what nobody keeps is read over, and what somebody keeps is not", async () => {
  const isKept = (index: number): boolean => index % 3 === 0;
  const read = await readEach(small, isKept);
  const expected = Buffer.concat(small.filter((_, i) => isKept(i)));
  expect(Buffer.concat(read).equals(expected)).toBe(true);
});

test("large pieces that are kept stay whole", async () => {
  const large = Array.from({ length: 40 }, (_, i) => Buffer.alloc(20_000 + 7_000 * (i % 9), i + 1));
  const read = await readEach(large, () => true);
  expect(Buffer.concat(read).equals(Buffer.concat(large))).toBe(true);
});

test("a large body is read in pieces of up to 128 KiB, and its buffer serves the next one", async () => {
  const { reader, writer } = await connectPair();
  const buffers = new Set<ArrayBufferLike>();
  let [largest, left] = [0, 0];
  let end = (): void => {};
  reader.start((bytes) => {
    buffers.add(bytes.buffer);
    largest = Math.max(largest, bytes.length);
    left -= bytes.length;
    if (left === 0) end();
    return "read";
  });
  for (let i = 0; i < 4; i += 1) {
    left = 2_000_000;
    const done = new Promise<void>((resolve) => {
      end = resolve;
    });
    writer.write(Buffer.alloc(left, i));
    await within("it is read", done);
  }
  expect(largest).toBeGreaterThan(64 * 1024);
  expect(largest).toBeLessThanOrEqual(128 * 1024);
  expect(buffers.size).toBe(2);
});
