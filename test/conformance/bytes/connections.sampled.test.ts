// What writes to the upstream, reads from it, and joins two sockets to a tunnel, each part alone: what it was given comes out,
// in order. Its peers take and give bytes at random, and all memory is overwritten as soon as it may be.
import type { OnReadOpts, Socket } from "node:net";
import { Duplex } from "node:stream";
import { setImmediate as nextTurn } from "node:timers/promises";
import { test } from "vitest";
import { WriteBuffer } from "../../../src/exchange/socket-writes.ts";
import type { Endpoints } from "../../../src/upstream/endpoints.ts";
import {
  createConnectionResources,
  OutboundConnection,
  type ResponseHandler,
} from "../../../src/upstream/outbound-connection.ts";
import { Tunnels } from "../../../src/upstream/tunnels.ts";
import { SocketReader } from "../../../src/upstream/upstream-socket.ts";
import { type Draw, drawContent, expectNoFault, inChunks, Receipt } from "./drawn.ts";

/** A socket whose system takes a write at once or later, and gives what is pushed. */
class DrawnSocket extends Duplex {
  readonly _handle = null;
  readonly taken: Buffer[] = [];
  /** That waited to be taken. */
  mostBytes = 0;
  readonly #draw: Draw;

  constructor(draw: Draw) {
    super({ highWaterMark: draw.pick([1_000, 16_384, 65_536]) });
    this.#draw = draw;
  }

  /** As a net.Socket has it. */
  setTimeout(): void {}

  setNoDelay(): void {}

  override _read(): void {}

  override _write(bytes: Buffer, _: string, done: () => void): void {
    const take = (): void => {
      this.taken.push(Buffer.from(bytes));
      done();
    };
    const takeIn = (turns: number): void => void (turns === 0 ? take() : setImmediate(takeIn, turns - 1));
    takeIn(this.#draw.pick([0, 0, 1, 4]));
    this.mostBytes = Math.max(this.mostBytes, this.writableLength);
  }

  override _final(done: () => void): void {
    setImmediate(done);
  }
}

async function write(draw: Draw): Promise<string | null> {
  const content = drawContent(draw, 600_000);
  const receipt = new Receipt(content);
  const socket = new DrawnSocket(draw);
  const writer = new WriteBuffer();
  const isPlain = draw.isOneIn(2);
  const memory = Buffer.alloc(64 * 1024);
  for (let at = 0; at < content.length; ) {
    const next = (max: number): Buffer => {
      const bytes = content.subarray(at, at + draw.upTo(max));
      at += bytes.length;
      return bytes;
    };
    const before = next(draw.pick([0, 100, 20_000])).toString("latin1");
    const length = next(draw.pick([100, 4_000, memory.length])).copy(memory, 0);
    const bytes = memory.subarray(0, length);
    // A whole message may keep the bytes of a long body.
    if (draw.isOneIn(4) && length <= 8 * 1024) {
      writer.writeMessage(socket as unknown as Socket, before, bytes, isPlain);
    } else {
      const after = next(draw.pick([0, 10])).toString("latin1");
      const mayGoOn = writer.writePart(socket as unknown as Socket, before, bytes, after, isPlain);
      const isFull = socket.writableLength >= socket.writableHighWaterMark;
      if (mayGoOn && isFull) receipt.fault ??= "more may be written, but the socket has not taken what was";
    }
    memory.fill(0xee);
    if (draw.isOneIn(2)) await nextTurn();
  }
  for (let left = 2_000; left > 0 && socket.writableLength > 0; left -= 1) await nextTurn();
  receipt.take(Buffer.concat(socket.taken));
  receipt.end();
  return receipt.fault;
}

test("parts of messages that are put together in one buffer are written as they were given", () =>
  expectNoFault(write, 400));

/** One client after the other gets an answer. It has a piece at once, or later: the connection may serve others by then. */
class SlowClients {
  isOver = false;
  fault: string | null = null;
  #current: Receipt | null = null;
  /** Of each answer, what its client does not have yet. */
  readonly #kept = new Map<Receipt, (Buffer | "end")[]>();
  readonly #draw: Draw;
  readonly #socket: Duplex;
  readonly #connection: OutboundConnection;

  constructor(draw: Draw, socket: Duplex, connection: OutboundConnection) {
    this.#draw = draw;
    this.#socket = socket;
    this.#connection = connection;
  }

  handle(receipt: Receipt): ResponseHandler {
    const kept: (Buffer | "end")[] = [];
    this.#kept.set(receipt, kept);
    this.#current = receipt;
    this.isOver = false;
    const fail = (what: string): void => {
      this.fault ??= what;
      this.isOver = true;
    };
    return {
      onInterim: () => {},
      onHead: () => {},
      onPacketEnd: () => {},
      onBody: (bytes, from, to) => {
        kept.push(bytes.subarray(from, to));
        if (kept.length === 1 && this.#draw.isOneIn(2)) this.#take(receipt, 1);
        else if (this.#draw.isOneIn(2)) {
          this.#connection.pause();
          if (!this.#socket.isPaused()) this.fault ??= "the answer is read on for a client that takes no more";
        }
        return kept.length > 0;
      },
      onEnd: () => {
        kept.push("end");
        this.isOver = true;
      },
      onUpgrade: () => fail("the connection was upgraded"),
      onError: (error) => fail(error.message),
    };
  }

  /** One of the clients has all that was kept for it, or a part. */
  drain(pieces: number): void {
    const receipt = this.#draw.pick([...this.#kept.keys()]);
    this.#take(receipt, pieces);
    if (receipt === this.#current && !this.isOver) {
      this.#connection.resume(this.#kept.get(receipt)?.length === 0);
    }
  }

  drainAll(): void {
    for (const receipt of this.#kept.keys()) this.#take(receipt, Number.POSITIVE_INFINITY);
  }

  #take(receipt: Receipt, pieces: number): void {
    for (const piece of this.#kept.get(receipt)?.splice(0, pieces) ?? []) {
      if (piece === "end") receipt.end();
      else receipt.take(piece);
      this.fault ??= receipt.fault;
    }
  }
}

async function answer(draw: Draw): Promise<string | null> {
  const opened = Promise.withResolvers<OnReadOpts>();
  const socket = new DrawnSocket(draw);
  const open = (onread: OnReadOpts): Socket => {
    opened.resolve(onread);
    return socket as unknown as Socket;
  };
  const resources = {
    ...createConnectionResources(),
    responseTimeoutMs: 2 ** 30,
    bodyTimeoutMs: 2 ** 30,
    onClose: () => {},
  };
  const connection = new OutboundConnection(SocketReader.open(open, draw.isOneIn(2)), resources);
  const onread = await opened.promise;
  const nextMemory = onread.buffer as () => Uint8Array;
  const clients = new SlowClients(draw, socket, connection);
  let memory = nextMemory();
  const receipts: Receipt[] = [];
  for (let answers = draw.pick([1, 3]); answers > 0; answers -= 1) {
    const content = drawContent(draw, draw.pick([1_000, 100_000, 600_000]));
    const isChunked = draw.isOneIn(2);
    const head = isChunked ? "Transfer-Encoding: chunked" : `Content-Length: ${content.length}`;
    const body = isChunked ? inChunks(draw, content) : content;
    const all = Buffer.concat([Buffer.from(`HTTP/1.1 200 OK\r\n${head}\r\n\r\n`), body]);
    const receipt = new Receipt(content);
    receipts.push(receipt);
    const request = {
      start: "GET / HTTP/1.1",
      hasLength: false,
      mayGetLength: false,
      body: null,
      isLast: false,
      upgrade: "",
    };
    connection.send({ method: "GET", ...request }, clients.handle(receipt));
    for (let at = 0; at < all.length && clients.fault === null; ) {
      // Before the next batch of events nothing can be an answer.
      if (at === 0 || draw.isOneIn(4)) await nextTurn();
      if (!socket.isPaused() || draw.isOneIn(20)) {
        const bytes = draw.isOneIn(2) ? memory.length : draw.length(memory.length);
        const count = all.copy(memory, 0, at, at + bytes);
        at += count;
        onread.callback(count, memory);
        memory = nextMemory();
      }
      if (draw.isOneIn(3)) clients.drain(draw.pick([1, 2, 1_000]));
    }
  }
  clients.drainAll();
  connection.abort();
  return clients.fault ?? (receipts.every(({ isEnded }) => isEnded) ? null : "an answer has not ended");
}

test("answers that are read into the same memory reach slow clients as they came", () => expectNoFault(answer, 1_000));

async function tunnel(draw: Draw): Promise<string | null> {
  const contents = [drawContent(draw, 300_000), drawContent(draw, 300_000)] as const;
  const sockets = [new DrawnSocket(draw), new DrawnSocket(draw)] as const;
  let isOver = false;
  const tunnels = new Tunnels({
    endpoints: null as unknown as Endpoints,
    maxTunnels: 10,
    idleTimeoutMs: 2 ** 30,
    nowMs: () => 0,
    onShareExceeded: () => {},
    onEnd: () => {
      isOver = true;
    },
  });
  const early = contents[0].subarray(0, draw.pick([0, 10, 60_000]));
  const starts = [early.length, 0] as const;
  const [client, upstream] = sockets as unknown as readonly [Socket, Socket];
  tunnels.join({ socket: client, early: [early], held: null, whenTokenEnds: null }, upstream, { id: "", client: "" });
  const push = async (side: 0 | 1): Promise<void> => {
    const [socket, content] = [sockets[side], contents[side]];
    for (let at = starts[side]; at < content.length; ) {
      const bytes = Buffer.from(content.subarray(at, at + draw.length(64 * 1024)));
      at += bytes.length;
      if (!socket.push(bytes) || draw.isOneIn(4)) await nextTurn();
    }
    socket.push(null);
  };
  await Promise.all([push(0), push(1)]);
  for (let left = 5_000; left > 0 && !isOver; left -= 1) await nextTurn();
  tunnels.close();
  const faults = contents.map((content, side) => {
    const receipt = new Receipt(content);
    receipt.take(Buffer.concat(sockets[1 - side]?.taken ?? []));
    receipt.end();
    return receipt.fault;
  });
  // A piece that was read in one, and what came before the tunnel was one.
  const isTooMuch = sockets.some((socket) => socket.mostBytes > socket.writableHighWaterMark + 2 * 64 * 1024);
  if (isTooMuch) return "bytes wait for a side that does not take them";
  return faults[0] ?? faults[1] ?? (isOver ? null : "the tunnel has not ended");
}

test("a tunnel passes bytes on in both directions as they came", () => expectNoFault(tunnel, 300));
