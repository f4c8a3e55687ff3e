// What the gateway believes it forwarded: every head that it writes as one, with the connection it goes out on. What it
// writes otherwise (bodies) does not count, so a server that takes any of that for a request is caught.
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import type { Socket } from "node:net";
import { TextWrites } from "../../../src/exchange/socket-writes.ts";
import { OutboundConnection } from "../../../src/upstream/outbound-connection.ts";

export interface BelievedRequest {
  /** X-Request-Id. */
  readonly id: string;
  readonly line: string;
  /** As written, in order, less those that frame the body. */
  readonly fields: readonly string[];
  /** The gateway's port of the connection, the last one if it was sent again after an idle close. */
  readonly port: number;
  readonly timesSent: number;
}

/** The methods of a connection that may write a head. */
const writers = ["send", "writeDeferred", "writeHead", "sendPiece", "endBody"] as const;

/** Node tells of every socket that is opened here. */
const channel = "net.client.socket";

export class Believed {
  readonly requests = new Map<string, BelievedRequest>();
  readonly #methods = writers.map((name) => OutboundConnection.prototype[name]);
  readonly #writeText = TextWrites.prototype.write;
  /** Connections whose request has been sent, but not its head: the next thing that is written is that. */
  readonly #headless = new WeakSet<OutboundConnection>();
  /** The one of them whose method is running. */
  #current: OutboundConnection | null = null;

  constructor() {
    const writeText = this.#writeText;
    const whileHeadIsNext = this.#whileHeadIsNext;
    const onWrite = this.#onWrite;
    const headless = this.#headless;
    for (const name of writers) {
      const method = OutboundConnection.prototype[name] as (...args: unknown[]) => unknown;
      const wrapped = function (this: OutboundConnection, ...args: unknown[]): unknown {
        if (name === "send") headless.add(this);
        return whileHeadIsNext(this, () => Reflect.apply(method, this, args));
      };
      Object.assign(OutboundConnection.prototype, { [name]: wrapped });
    }
    TextWrites.prototype.write = function (socket, text) {
      onWrite(text, socket);
      return writeText.call(this, socket, text);
    };
    subscribe(channel, this.#onSocket);
  }

  close(): void {
    for (const [i, name] of writers.entries())
      Object.assign(OutboundConnection.prototype, { [name]: this.#methods[i] });
    TextWrites.prototype.write = this.#writeText;
    unsubscribe(channel, this.#onSocket);
  }

  readonly #whileHeadIsNext = (connection: OutboundConnection, act: () => unknown): unknown => {
    if (this.#headless.has(connection)) this.#current = connection;
    const result = act();
    this.#current = null;
    return result;
  };

  readonly #onSocket = (message: unknown): void => {
    const { socket } = message as { socket: Socket };
    // Not before: connecting gives a socket its own method back.
    socket.once("connect", () => {
      const { write } = socket;
      socket.write = (...args: unknown[]): boolean => {
        this.#onWrite(args[0], socket);
        return Reflect.apply(write, socket, args);
      };
    });
  };

  readonly #onWrite = (written: unknown, socket: Socket): void => {
    if (this.#current === null) return;
    this.#headless.delete(this.#current);
    this.#current = null;
    this.#note(textOf(written), socket);
  };

  /** A short body that is there already goes with its head. */
  #note(head: string, socket: Socket): void {
    const [line = "", ...lines] = head.slice(0, head.indexOf("\r\n\r\n")).split("\r\n");
    const id = lines.find((field) => field.startsWith("X-Request-Id: "))?.slice("X-Request-Id: ".length) ?? "";
    const timesSent = (this.requests.get(id)?.timesSent ?? 0) + 1;
    const fields = lines.filter((field) => !/^(?:content-length|transfer-encoding):/i.test(field));
    this.requests.set(id, { id, line, fields, port: socket.localPort ?? 0, timesSent });
  }
}

function textOf(written: unknown): string {
  return Buffer.isBuffer(written) ? written.toString("latin1") : String(written);
}
