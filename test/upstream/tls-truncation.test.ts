// The end of TLS is told from an end of the TCP connection below it, however the socket is read.
import type { OnReadOpts } from "node:net";
import { connect, createServer, type TLSSocket } from "node:tls";
import { afterAll, expect, test } from "vitest";
import { failIfTruncated } from "../../src/upstream/upstream-tls.ts";
import { Authority } from "../support/certificates.ts";
import { useCleanup } from "../support/cleanup.ts";
import { eventually, turns, within } from "../support/eventually.ts";
import { listen } from "../support/loopback-server.ts";

const cleanup = useCleanup();
const certificate = new Authority(afterAll).issue();

/** Connects to a server that calls `act` with each of its sockets. */
async function open(act: (socket: TLSSocket) => void, onread?: OnReadOpts): Promise<TLSSocket> {
  const server = cleanup(createServer(certificate, act));
  const port = await listen(server);
  const how = { host: "127.0.0.1", port, rejectUnauthorized: false, ...(onread === undefined ? {} : { onread }) };
  const socket = cleanup(connect(how));
  failIfTruncated(socket);
  return socket;
}

/** Resolves with "end" or the code of the error. */
function lastOf(socket: TLSSocket): Promise<string> {
  const last = new Promise<string>((resolve) => {
    socket.once("end", () => resolve("end")).once("error", (error) => resolve(String(Reflect.get(error, "code"))));
  });
  return within("the connection ends", last);
}

const endings = [
  ["an end of TLS", (socket: TLSSocket) => void socket.end("bytes"), "end"],
  ["an end of TCP", (socket: TLSSocket) => void socket.write("bytes", () => void socket.destroy()), "TLS_TRUNCATED"],
] as const;

test.each(endings)("%s behind bytes that are read at once", async (_, act, expected) => {
  let read = "";
  const callback = (count: number, bytes: Uint8Array): boolean => {
    read += Buffer.from(bytes.subarray(0, count)).toString();
    return true;
  };
  const socket = await open(act, { buffer: new Uint8Array(1_000), callback });
  expect(await lastOf(socket)).toBe(expected);
  expect(read).toBe("bytes");
});

test.each(endings)("%s behind bytes at which the reader pauses", async (_, act, expected) => {
  const callback = (): boolean => {
    socket.pause();
    void turns(50).then(() => socket.resume());
    return true;
  };
  const socket = await open(act, { buffer: new Uint8Array(1_000), callback });
  expect(await lastOf(socket)).toBe(expected);
});

test("an end of TLS that a stream reads when that of TCP has come, too", async () => {
  const socket = await open((accepted) => void accepted.end("bytes"));
  socket.pause();
  const last = lastOf(socket);
  await eventually("the bytes are there", () => socket.readableLength > 0);
  await turns(50);
  expect(socket.readableLength).toBe("bytes".length);
  socket.resume();
  expect(await last).toBe("end");
});
