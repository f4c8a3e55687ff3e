// Clients that come, ask a dozen times and go, a third of them in the middle of something, over each protocol.
import { connect, type Socket } from "node:net";
import { connect as connectTls, type TLSSocket } from "node:tls";
import {
  code,
  endHeaders,
  endStream,
  type Frame,
  FrameReader,
  frame,
  frameTypes,
  get,
  literals,
} from "../../support/http2-frames.ts";
import { request } from "../../support/stage.ts";

export type Protocol = "HTTP/1.1" | "HTTP/1.1 over TLS" | "HTTP/2";

export interface Churned {
  sent: number;
  /** Those whose client was answered. */
  ok: number;
  refused: number;
  /** Those in which their client left before it was answered. */
  aborted: number;
}

const atOnce = 64;
/** Of a connection that is not aborted. With those that are, ten on average. */
const requestsOfConnection = 13;

type Random = () => number;

/** Where and how a client leaves. */
interface Abort {
  readonly request: number;
  readonly place: "connecting" | "sending" | "waiting" | "receiving";
  readonly how: "FIN" | "reset" | "stream";
}

/** Makes so many connections, and resolves when all are closed. */
export async function churn(
  protocol: Protocol,
  port: number,
  ca: string,
  count: number,
  random: Random,
): Promise<Churned> {
  const churned: Churned = { sent: 0, ok: 0, refused: 0, aborted: 0 };
  let begun = 0;
  const run = async (): Promise<void> => {
    while (begun < count) {
      begun += 1;
      if (protocol === "HTTP/2") await new Http2Visitor(port, ca, random, churned).closed;
      else await runHttp1(protocol === "HTTP/1.1" ? null : ca, port, random, churned);
    }
  };
  await Promise.all(Array.from({ length: atOnce }, run));
  return churned;
}

function chooseAbort(random: Random): Abort | null {
  if (random() >= 1 / 3) return null;
  const places = ["sending", "waiting", "receiving"] as const;
  const place = random() < 0.05 ? "connecting" : (places[Math.floor(random() * places.length)] ?? "waiting");
  const how = (["FIN", "reset", "stream"] as const)[Math.floor(random() * 3)] ?? "FIN";
  return { request: Math.floor(random() * requestsOfConnection), place, how };
}

function open(port: number, ca: string | null, protocols: string[]): { tcp: Socket; socket: Socket | TLSSocket } {
  const tcp = connect({ port, host: "127.0.0.1", noDelay: true }).on("error", () => {});
  if (ca === null) return { tcp, socket: tcp };
  const socket = connectTls({ socket: tcp, ca, servername: "localhost", ALPNProtocols: protocols });
  return { tcp, socket: socket.on("error", () => {}) };
}

function leave({ tcp, socket }: ReturnType<typeof open>, { how }: Abort): void {
  if (how === "reset" && !tcp.destroyed) tcp.resetAndDestroy();
  socket.destroy();
}

interface Ask {
  readonly method: "GET" | "POST";
  readonly path: string;
  readonly body: string;
}

function chooseRequest(random: Random): Ask {
  const kind = random();
  if (kind < 0.7) return { method: "GET", path: "/v2/small", body: "" };
  if (kind < 0.72) return { method: "GET", path: "/v2/large", body: "" };
  return { method: "POST", path: "/v2/small", body: "b".repeat(1 + Math.floor(random() * 6_000)) };
}

function textOf({ method, path, body }: Ask, isLast: boolean): string {
  const fields = isLast ? "Connection: close\r\n" : "";
  return request(path, { method, fields: `${fields}Content-Length: ${body.length}\r\n`, body });
}

/** Resolves when the connection is closed. */
function runHttp1(ca: string | null, port: number, random: Random, churned: Churned): Promise<void> {
  const abort = chooseAbort(random);
  const sockets = open(port, ca, ["http/1.1"]);
  const { socket } = sockets;
  let sent = 0;
  let left = 0;
  const next = (): void => {
    const text = textOf(chooseRequest(random), sent + 1 === requestsOfConnection);
    const isAborted = abort?.request === sent;
    sent += 1;
    churned.sent += 1;
    if (isAborted) churned.aborted += 1;
    left = -1;
    if (isAborted && abort.place === "sending") {
      socket.write(text.slice(0, Math.floor(random() * text.length)), () => leave(sockets, abort));
    } else if (random() < 0.1) {
      // In two packets.
      const half = Math.floor(text.length / 2);
      socket.write(text.slice(0, half));
      setImmediate(() => socket.write(text.slice(half)));
    } else socket.write(text);
    if (isAborted && abort.place === "waiting") setImmediate(() => leave(sockets, abort));
  };
  socket.once(ca === null ? "connect" : "secureConnect", next);
  if (abort?.place === "connecting") sockets.tcp.once("connect", () => setImmediate(() => leave(sockets, abort)));
  socket.on("data", (bytes: Buffer) => {
    if (abort?.request === sent - 1) {
      leave(sockets, abort);
      return;
    }
    if (left === -1) {
      if (bytes.toString("latin1", 0, 12) === "HTTP/1.1 200") churned.ok += 1;
      else churned.refused += 1;
    }
    left = left === -1 ? responseBytes(bytes) - bytes.length : left - bytes.length;
    if (left === 0 && sent < requestsOfConnection) next();
  });
  return new Promise((resolve) => socket.once("close", () => resolve()));
}

/** Of the response that begins here; the gateway writes a head in one piece. */
function responseBytes(first: Buffer): number {
  const head = first.toString("latin1", 0, first.indexOf("\r\n\r\n") + 4);
  return head.length + Number(/\r\nContent-Length: (\d+)/i.exec(head)?.[1]);
}

/** Its streams follow each other, or three go at once. Frames are its own: Node's client has been seen to end its process. */
class Http2Visitor {
  readonly closed: Promise<void>;
  readonly #sockets: ReturnType<typeof open>;
  readonly #abort: Abort | null;
  readonly #random: Random;
  readonly #churned: Churned;
  readonly #reader = new FrameReader();
  /** Those that were not answered yet, and whether the client leaves when they are. */
  readonly #unanswered = new Map<number, boolean>();
  #begun = 0;
  #ended = 0;

  constructor(port: number, ca: string, random: Random, churned: Churned) {
    this.#random = random;
    this.#churned = churned;
    this.#abort = chooseAbort(random);
    this.#sockets = open(port, ca, ["h2"]);
    const { socket, tcp } = this.#sockets;
    if (this.#abort?.place === "connecting") tcp.once("connect", () => setImmediate(() => this.#leave()));
    socket.once("secureConnect", () => {
      socket.write(http2Beginning);
      for (let i = random() < 0.3 ? 3 : 1; i > 0; i -= 1) this.#next();
    });
    socket.on("data", (bytes: Buffer) => {
      for (const one of this.#reader.read(bytes)) this.#take(one);
    });
    this.closed = new Promise((resolve) =>
      socket.once("close", () => {
        churned.aborted += this.#unanswered.size;
        resolve();
      }),
    );
  }

  #leave(): void {
    if (this.#abort !== null) leave(this.#sockets, this.#abort);
  }

  #send(type: number, flags: number, stream: number, payload: Buffer | string = ""): void {
    if (this.#sockets.socket.writable) this.#sockets.socket.write(frame(type, flags, stream, payload));
  }

  #next(): void {
    if (this.#begun === requestsOfConnection) {
      if (this.#ended === this.#begun) this.#sockets.socket.end();
      return;
    }
    const abort = this.#abort?.request === this.#begun ? this.#abort : null;
    const stream = 2 * this.#begun + 1;
    const { method, path, body } = chooseRequest(this.#random);
    const isCut = abort?.place === "sending";
    this.#begun += 1;
    this.#churned.sent += 1;
    this.#unanswered.set(stream, abort !== null);
    const hasEnd = body === "" && !isCut;
    const head = literals([[":method", method], ...get(path).slice(1)]);
    this.#send(frameTypes.headers, hasEnd ? endHeaders | endStream : endHeaders, stream, head);
    if (isCut) this.#send(frameTypes.data, 0, stream, body.slice(0, Math.floor(this.#random() * body.length)));
    else if (!hasEnd) this.#send(frameTypes.data, endStream, stream, body);
    if (isCut || abort?.place === "waiting") setImmediate(() => this.#stop(stream));
  }

  /** Leaves, or resets the stream alone. */
  #stop(stream: number): void {
    if (this.#abort?.how !== "stream") {
      this.#leave();
      return;
    }
    if (!this.#unanswered.delete(stream)) return;
    this.#churned.aborted += 1;
    this.#send(frameTypes.rstStream, 0, stream, code(8));
    this.#end();
  }

  #end(): void {
    this.#ended += 1;
    this.#next();
  }

  #take({ type, flags, stream, payload }: Frame): void {
    if (type === frameTypes.settings && flags === 0) this.#send(frameTypes.settings, 1, 0);
    if (type === frameTypes.headers) {
      const isLast = this.#unanswered.get(stream);
      if (isLast === undefined) return;
      if (isLast) {
        this.#stop(stream);
        return;
      }
      this.#unanswered.delete(stream);
      // The first block begins with the size of the table.
      if (payload[payload[0] === 0x20 ? 1 : 0] === statusOk) this.#churned.ok += 1;
      else this.#churned.refused += 1;
      this.#answered.add(stream);
    }
    const isEnd = type <= frameTypes.headers && (flags & endStream) !== 0;
    if (isEnd && this.#answered.delete(stream)) this.#end();
  }

  /** Whose body has not ended. */
  readonly #answered = new Set<number>();
}

/** RFC 7541, appendix A: `:status: 200`. */
const statusOk = 0x88;
/** Windows of which no response reaches the end. */
const http2Beginning = Buffer.concat([
  Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
  frame(frameTypes.settings, 0, 0, Buffer.concat([Buffer.of(0, 4), code(2 ** 20)])),
  frame(frameTypes.windowUpdate, 0, 0, code(2 ** 30)),
]);
