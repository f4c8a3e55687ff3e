// What is special of shared reads over TLS: a proof of their own, and one read of the connection below can bring many
// records.
import tls from "node:tls";
import { expect, test } from "vitest";
import { makeSecureNet } from "../../src/exchange/secure-net.ts";
import { SocketReads } from "../../src/exchange/shared-reads.ts";
import { type Net, openSharedReads } from "../../src/exchange/shared-reads-proof.ts";
import { TextWrites } from "../../src/exchange/text-writes.ts";
import { chooseReads } from "../../src/wiring/shared-reads.ts";
import { useCleanup } from "../support/cleanup.ts";
import { keptLog } from "../telemetry/lines.ts";
import { once, openPair, type Pair, poll, text } from "./pair.ts";

const cleanup = useCleanup();

/** Makes one read of the connection bring all the records. */
async function sendRecords({ client, accepted }: Pair, records: readonly string[]): Promise<void> {
  accepted.pause();
  for (const record of records) await new Promise((resolve) => client.write(record, resolve));
  for (let turn = 0; turn < 5; turn += 1) await new Promise(setImmediate);
  accepted.resume();
}

test("this Node passes the proof, and both kinds of connections are read into one memory", async () => {
  const plain = await openSharedReads();
  const { reads, reason } = await openSharedReads(makeSecureNet(), undefined, plain.reads);
  expect(reason).toBeNull();
  expect(reads?.memory).toBe(plain.reads?.memory);
  const { client, accepted } = await openPair(cleanup, "TLS");
  expect(plain.reads?.take(accepted, () => {})).toBe(false);
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

test("the proof holds too where a Node is limited to TLS 1.2", async () => {
  const { DEFAULT_MAX_VERSION } = tls;
  cleanup(() => {
    tls.DEFAULT_MAX_VERSION = DEFAULT_MAX_VERSION;
  });
  tls.DEFAULT_MAX_VERSION = "TLSv1.2";
  expect(await openSharedReads(makeSecureNet())).toMatchObject({ reason: null });
});

test("a Node that fails the proof over TLS alone reads all connections as streams, and says why", async () => {
  const { log, lines } = keptLog("warn");
  // The two ends of its TLS have different keys.
  const broken: Net = { ...makeSecureNet(), connect: makeSecureNet().connect };
  const prove: typeof openSharedReads = (net, timeoutMs, known = null) =>
    openSharedReads(known === null ? net : broken, timeoutMs, known);
  expect(await chooseReads(log, true, new TextWrites(), prove)).toBeNull();
  expect(lines()).toMatchObject([{ msg: "connections are read as streams" }]);
  expect(await chooseReads(log, true, new TextWrites())).toBeInstanceOf(SocketReads);
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
