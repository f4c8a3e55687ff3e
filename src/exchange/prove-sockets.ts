// Tries at each start whether sockets can be read and written without streams: what `sockets.ts` uses is not documented.
import { connect, createServer, type NetConnectOpts, type Server, type ServerOpts, type Socket } from "node:net";
import { ignoreError } from "../core/failure.ts";
import { tryTexts } from "./socket-writes.ts";
import { SocketReads } from "./sockets.ts";

/** What opens the connections of the proof. A test replaces it by a Node of another kind. */
export interface Net {
  readonly createServer: (options: ServerOpts) => Server;
  readonly connect: (options: NetConnectOpts) => Socket;
}

type ProvenReads =
  /** `textHandles`: the kind of handle that texts can be written to; null: none. */
  | { readonly reads: SocketReads; readonly textHandles: unknown; readonly reason: null }
  /** Connections have to be read as streams. */
  | { readonly reads: null; readonly reason: string };

/** Only a Node that never delivers the bytes takes so long. */
const proofTimeoutMs = 2_000;

/**
 * Tries at the start whether accepted connections can be read into one buffer, and whether texts can be written without
 * streams, because both depend on parts of Node that are not documented. It does not try TLS, which relies only on what
 * plain sockets show and on what Node documents; the tests try that. It opens two connections to its own port, which
 * takes a few milliseconds: one is paused, resumed and released while bytes arrive, the other is half-closed by its
 * client. Both get an answer. Never rejects.
 */
export async function openSharedReads(
  net: Net = { createServer, connect },
  timeoutMs = proofTimeoutMs,
): Promise<ProvenReads> {
  const stage = new Stage(net, timeoutMs);
  try {
    const reads = await stage.prove();
    return { reads, textHandles: stage.textHandles, reason: null };
  } catch (error) {
    return { reads: null, reason: error instanceof Error ? error.message : String(error) };
  } finally {
    stage.close();
  }
}

class Stage {
  readonly #net: Net;
  readonly #server: Server;
  readonly #sockets: Socket[] = [];
  readonly #failed = Promise.withResolvers<never>();
  readonly #timer: NodeJS.Timeout;
  textHandles: unknown = null;

  constructor(net: Net, timeoutMs: number) {
    this.#net = net;
    this.#server = net.createServer({ allowHalfOpen: true, noDelay: true });
    this.#timer = setTimeout(() => this.#fail("the bytes of a connection did not arrive"), timeoutMs);
    this.#failed.promise.catch(ignoreError);
  }

  async prove(): Promise<SocketReads> {
    return Promise.race([this.#failed.promise, this.#run()]);
  }

  close(): void {
    clearTimeout(this.#timer);
    for (const socket of this.#sockets) socket.destroy();
    this.#server.close();
  }

  async #run(): Promise<SocketReads> {
    const listening = Promise.withResolvers<void>();
    this.#server.once("error", listening.reject).listen(0, "127.0.0.1", listening.resolve);
    await listening.promise;
    const first = await this.#connect();
    const reads = SocketReads.of(first.accepted);
    if (reads === null) throw new Error("Node's sockets have other parts");
    const second = await this.#connect();
    await Promise.all([this.#proveRelease(reads, first), this.#proveEnd(reads, second)]);
    return reads;
  }

  async #connect(): Promise<SocketPair> {
    const { port } = this.#server.address() as { port: number };
    const accepting = Promise.withResolvers<Socket>();
    this.#server.once("connection", accepting.resolve);
    const client = this.#net.connect({ port, host: "127.0.0.1", allowHalfOpen: true, noDelay: true });
    this.#keep(client);
    const accepted = await accepting.promise;
    this.#keep(accepted);
    return { client, accepted };
  }

  #keep(socket: Socket): void {
    this.#sockets.push(socket);
    socket.on("error", ({ message }) => this.#fail(message));
  }

  /** Pause and resume, then the release with unread bytes, further bytes for the stream, and a half-closed end. */
  async #proveRelease(reads: SocketReads, { client, accepted }: SocketPair): Promise<void> {
    let taken = "";
    const isTaken = reads.take(accepted, (bytes) => {
      this.#expect(bytes.buffer === reads.memory.buffer, "the bytes are in another buffer");
      taken += bytes.toString("latin1");
      if (taken === "one,") {
        accepted.pause();
        client.write("two,");
        twoTurnsLater(() => {
          this.#expect(taken === "one,", "a paused connection is read");
          accepted.resume();
        });
      } else {
        this.#expect(taken === "one,two,", "other bytes arrive than were sent");
        reads.release(accepted, bytes.subarray(1));
        // Overwrites what is not copied.
        client.write("three");
        accepted.resume();
      }
    });
    this.#expect(isTaken, "an accepted connection has another kind of handle");
    client.write("one,");
    const streamed = await this.#stream(accepted, "wo,three", () => client.end());
    this.#expect(streamed === "wo,three", "the stream has other bytes than were unread and sent");
    this.#expect(accepted.bytesRead === "one,two,three".length, "the bytes that are read are not counted");
    await this.#answer({ client, accepted });
  }

  /** An end that follows the bytes, without a release. */
  async #proveEnd(reads: SocketReads, { client, accepted }: SocketPair): Promise<void> {
    let taken = "";
    const ended = Promise.withResolvers<void>();
    reads.take(accepted, (bytes) => {
      taken += bytes.toString("latin1");
    });
    accepted.once("end", ended.resolve);
    client.end("one");
    await ended.promise;
    this.#expect(taken === "one", "bytes before an end are lost");
    await this.#answer({ client, accepted });
  }

  /** Resolves with what the stream has read when it ends. */
  async #stream(accepted: Socket, expected: string, onComplete: () => void): Promise<string> {
    let streamed = "";
    const ended = Promise.withResolvers<void>();
    accepted.on("data", (bytes: Buffer) => {
      streamed += bytes.toString("latin1");
      if (streamed.length === expected.length) onComplete();
    });
    accepted.once("end", ended.resolve);
    await ended.promise;
    return streamed;
  }

  /** The client has ended its direction, and gets an answer in the other one. */
  async #answer({ client, accepted }: SocketPair): Promise<void> {
    let answer = "";
    client.on("data", (bytes: Buffer) => {
      answer += bytes.toString("latin1");
    });
    const closed = [client, accepted].map((socket) => new Promise((resolve) => socket.once("close", resolve)));
    this.textHandles = tryTexts(accepted, "f", "ou");
    accepted.end("r");
    await Promise.all(closed);
    this.#expect(answer === "four", "a half-closed connection gets no answer");
  }

  #expect(isTrue: boolean, otherwise: string): void {
    if (!isTrue) this.#fail(otherwise);
  }

  /** Callbacks of a socket must not throw. */
  #fail(reason: string): void {
    this.#failed.reject(new Error(reason));
  }
}

interface SocketPair {
  readonly client: Socket;
  readonly accepted: Socket;
}

/** Acts after the event loop has looked at all sockets once. */
function twoTurnsLater(act: () => void): void {
  setImmediate(() => setImmediate(act));
}
