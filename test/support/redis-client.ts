// A client of Redis that is independent of the gateway's: a test asks with it, and sees what the store holds.
import { once } from "node:events";
import { connect, type Socket } from "node:net";

export class RedisClient {
  readonly #socket: Socket;
  readonly #waiting: { resolve: (reply: unknown) => void; reject: (error: Error) => void }[] = [];
  #received: Buffer = Buffer.alloc(0);

  private constructor(socket: Socket) {
    this.#socket = socket;
    socket.on("data", (piece: Buffer) => this.#read(piece));
    socket.on("error", () => {});
    socket.on("close", () => {
      for (const { reject } of this.#waiting.splice(0)) reject(new Error("the connection was lost"));
    });
  }

  static async open(port: number): Promise<RedisClient> {
    const socket = connect(port, "127.0.0.1").setNoDelay(true);
    await once(socket, "connect");
    return new RedisClient(socket);
  }

  /** An error of the server rejects with its text. Texts are returned as strings, integers as numbers. */
  ask(...args: readonly (string | number)[]): Promise<unknown> {
    const texts = args.map((arg) => `$${Buffer.byteLength(String(arg))}\r\n${arg}\r\n`);
    this.#socket.write(`*${args.length}\r\n${texts.join("")}`);
    return new Promise((resolve, reject) => this.#waiting.push({ resolve, reject }));
  }

  close(): void {
    this.#socket.destroy();
  }

  #read(piece: Buffer): void {
    this.#received = Buffer.concat([this.#received, piece]);
    for (;;) {
      const parsed = parse(this.#received, 0);
      if (parsed === null) return;
      this.#received = this.#received.subarray(parsed.end);
      const asked = this.#waiting.shift();
      if (parsed.value instanceof Error) asked?.reject(parsed.value);
      else asked?.resolve(parsed.value);
    }
  }
}

/** The value that begins at `start`; null if it is not complete yet. */
function parse(bytes: Buffer, start: number): { value: unknown; end: number } | null {
  const lineEnd = bytes.indexOf("\r\n", start);
  if (lineEnd === -1) return null;
  const [kind, text] = [String.fromCharCode(bytes[start] ?? 0), bytes.toString("utf8", start + 1, lineEnd)];
  const end = lineEnd + 2;
  if (kind === "+") return { value: text, end };
  if (kind === "-") return { value: new Error(text), end };
  if (kind === ":") return { value: Number(text), end };
  const length = Number(text);
  if (length === -1) return { value: null, end };
  if (kind === "$") {
    if (bytes.length < end + length + 2) return null;
    return { value: bytes.toString("utf8", end, end + length), end: end + length + 2 };
  }
  const values: unknown[] = [];
  let at = end;
  while (values.length < length) {
    const inner = parse(bytes, at);
    if (inner === null) return null;
    values.push(inner.value);
    at = inner.end;
  }
  return { value: values, end: at };
}
