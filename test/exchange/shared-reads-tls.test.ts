// What is special of shared reads over TLS: the proof at the start does not try them, and one read of the connection below
// can bring many records.
import { expect, test } from "vitest";
import { openSharedReads } from "../../src/exchange/prove-sockets.ts";
import { useCleanup } from "../support/cleanup.ts";
import { once, openPair, type Pair, poll, text } from "./pair.ts";

const cleanup = useCleanup();

/** Makes one read of the connection bring all the records. */
async function sendRecords({ client, accepted }: Pair, records: readonly string[]): Promise<void> {
  accepted.pause();
  for (const record of records) await new Promise((resolve) => client.write(record, resolve));
  for (let turn = 0; turn < 5; turn += 1) await new Promise(setImmediate);
  accepted.resume();
}

test("what is proven for plain connections reads those over TLS too, into the same memory", async () => {
  const { reads } = await openSharedReads();
  const { client, accepted } = await openPair(cleanup, "TLS");
  let seen = "";
  const isTaken = reads?.take(accepted, (bytes) => {
    expect(bytes.buffer).toBe(reads.memory.buffer);
    seen += bytes.toString("latin1");
  });
  expect(isTaken).toBe(true);
  client.write("bytes");
  await poll(() => seen).toBe("bytes");
  expect(accepted.bytesRead).toBe(5);
});

test("the records of one read come one after the other", async () => {
  const pair = await openPair(cleanup, "TLS");
  const pieces: string[] = [];
  pair.reads.take(pair.accepted, (bytes) => void pieces.push(bytes.toString("latin1")));
  await sendRecords(pair, ["one", "two", "three"]);
  await poll(() => pieces).toEqual(["one", "two", "three"]);
});

test("a connection that breaks in the middle of a write closes the socket", async () => {
  const { client, accepted, reads } = await openPair(cleanup, "TLS");
  reads.take(accepted, () => {});
  client.pause();
  accepted.write(Buffer.alloc(8 * 1024 * 1024));
  const closed = once(accepted, "close");
  client.destroy();
  await closed;
  expect(accepted.destroyed).toBe(true);
});

test("a socket that is destroyed at a record gets none of the next ones", async () => {
  const pair = await openPair(cleanup, "TLS");
  const pieces: string[] = [];
  pair.reads.take(pair.accepted, (bytes) => {
    pieces.push(bytes.toString("latin1"));
    pair.accepted.destroy();
  });
  const closed = once(pair.accepted, "close");
  await sendRecords(pair, ["one", "two", "three"]);
  await closed;
  expect(pieces).toEqual(["one"]);
});

test("a socket that is released at a record is a stream of the next ones", async () => {
  const pair = await openPair(cleanup, "TLS");
  const { client, accepted, reads } = pair;
  let streamed: Promise<string> | null = null;
  reads.take(accepted, (bytes) => {
    reads.release(accepted, bytes.subarray("taken,".length));
    streamed = text(accepted);
    accepted.resume();
  });
  await sendRecords(pair, ["taken,unread,", "two,", "three,"]);
  client.end("end");
  await poll(() => streamed).not.toBeNull();
  expect(await streamed).toBe("unread,two,three,end");
});
