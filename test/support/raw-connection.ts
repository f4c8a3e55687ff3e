// One client connection, byte for byte: what is written is what the test says, and responses are framed by the rules of
// RFC 9112, 6.3 alone, so a response that is missing, doubled, torn or too long is seen as that.
import { connect, type Socket } from "node:net";
import { type ConnectionOptions, connect as connectTls } from "node:tls";
import type { Cleanup } from "./cleanup.ts";
import { within } from "./eventually.ts";
import { type RawResponse, valuesOf } from "./raw-client.ts";

export interface FramedResponse extends RawResponse {
  readonly reason: string;
  /** Nothing but the connection's end told where the body ended. */
  readonly endedByClose: boolean;
}

export class RawConnection {
  readonly socket: Socket;
  /** Resolves with the error's code, or with "end" or "close" if there was none. */
  readonly closed: Promise<string>;
  #buffer = "";
  #receivedBytes = 0;
  #end: string | null = null;
  #wake: () => void = () => {};

  /** `tls` makes it a connection over TLS; `before` is sent in plain first. */
  constructor(
    port: number,
    options: { allowHalfOpen?: boolean; localAddress?: string; tls?: ConnectionOptions; before?: string } = {},
  ) {
    const { tls, before, ...rest } = options;
    const tcp = connect({ port, host: "127.0.0.1", noDelay: true, ...rest });
    if (before !== undefined) tcp.write(before, "latin1");
    this.socket = tls === undefined ? tcp : connectTls({ socket: tcp, servername: "localhost", ...tls });
    this.socket.on("data", (data) => {
      this.#buffer += data.toString("latin1");
      this.#receivedBytes += data.length;
      this.#wake();
    });
    this.socket.on("end", () => this.#finish("end"));
    this.socket.on("error", (error) => this.#finish("code" in error ? String(error.code) : "error"));
    this.closed = new Promise((resolve) => this.socket.on("close", () => resolve(this.#finish("close"))));
  }

  /** How the gateway ended the connection: "end" is a FIN, ECONNRESET a reset; null while it is open. */
  get ending(): string | null {
    return this.#end;
  }

  get receivedBytes(): number {
    return this.#receivedBytes;
  }

  /** Received and not yet taken by a read. */
  get rest(): string {
    return this.#buffer;
  }

  write(bytes: string | Buffer): this {
    this.socket.write(typeof bytes === "string" ? Buffer.from(bytes, "latin1") : bytes);
    return this;
  }

  destroy(): void {
    this.socket.destroy();
  }

  /** Writes a request, and reads the next response. */
  ask(bytes: string | Buffer, options?: Parameters<RawConnection["read"]>[0]): Promise<FramedResponse> {
    this.write(bytes);
    return this.read(options);
  }

  /** The next response, interim ones included. Rejects if the connection ends before it is whole. */
  async read(options: { method?: string; deadlineMs?: number } = {}): Promise<FramedResponse> {
    const { method = "GET", deadlineMs = 8_000 } = options;
    const head = await within("a response head", this.#takeThrough("\r\n\r\n"), deadlineMs);
    const { status, reason, rawHeaders } = parseHead(head);
    const [encoding] = valuesOf(rawHeaders, "transfer-encoding");
    const [length] = valuesOf(rawHeaders, "content-length");
    const hasNoBody = method === "HEAD" || status < 200 || status === 204 || status === 304;
    const endedByClose = !hasNoBody && encoding === undefined && length === undefined;
    const body = hasNoBody
      ? ""
      : await within(
          "a response body",
          encoding !== undefined
            ? this.#takeChunks()
            : length !== undefined
              ? this.#take(Number(length))
              : this.#takeRest(),
          deadlineMs,
        );
    return { status, reason, rawHeaders, body, endedByClose };
  }

  /** The head of the next response; its body is left for `rest`. */
  async readHead(deadlineMs = 8_000): Promise<Omit<FramedResponse, "body" | "endedByClose">> {
    return parseHead(await within("a response head", this.#takeThrough("\r\n\r\n"), deadlineMs));
  }

  async #takeThrough(mark: string): Promise<string> {
    for (;;) {
      const at = this.#buffer.indexOf(mark);
      if (at !== -1) return this.#take(at + mark.length);
      await this.#more();
    }
  }

  async #take(length: number): Promise<string> {
    while (this.#buffer.length < length) await this.#more();
    const taken = this.#buffer.slice(0, length);
    this.#buffer = this.#buffer.slice(length);
    return taken;
  }

  async #takeChunks(): Promise<string> {
    let body = "";
    for (;;) {
      const size = Number.parseInt(await this.#takeThrough("\r\n"), 16);
      const chunk = await this.#take(size + 2);
      if (Number.isNaN(size) || !chunk.endsWith("\r\n")) throw new Error("a chunk without its end");
      if (size === 0) return body;
      body += chunk.slice(0, -2);
    }
  }

  async #takeRest(): Promise<string> {
    while (this.#end === null) await new Promise<void>((resolve) => this.#wakeWith(resolve));
    return this.#take(this.#buffer.length);
  }

  async #more(): Promise<void> {
    if (this.#end !== null) {
      throw new Error(`connection ended (${this.#end}) after ${JSON.stringify(this.#buffer.slice(0, 300))}`);
    }
    await new Promise<void>((resolve) => this.#wakeWith(resolve));
  }

  #wakeWith(wake: () => void): void {
    this.#wake = wake;
  }

  #finish(how: string): string {
    this.#end ??= how;
    this.#wake();
    return this.#end;
  }
}

function parseHead(head: string): { status: number; reason: string; rawHeaders: string[] } {
  const [statusLine = "", ...lines] = head.slice(0, -4).split("\r\n");
  const match = /^HTTP\/1\.1 (\d{3}) (.*)$/.exec(statusLine);
  if (match === null) throw new Error(`no status line in ${JSON.stringify(head.slice(0, 200))}`);
  const rawHeaders = lines.flatMap((line) => {
    const colon = line.indexOf(": ");
    if (colon < 1) throw new Error(`no field in ${JSON.stringify(line)}`);
    return [line.slice(0, colon), line.slice(colon + 2)];
  });
  return { status: Number(match[1]), reason: match[2] ?? "", rawHeaders };
}

/** Sends a request over a connection of its own. Resolves with the response. */
export async function askOnce(cleanup: Cleanup, port: number, bytes: string): Promise<FramedResponse> {
  const client = cleanup(new RawConnection(port));
  const response = await client.ask(bytes, { method: bytes.startsWith("HEAD") ? "HEAD" : "GET" });
  client.destroy();
  return response;
}
