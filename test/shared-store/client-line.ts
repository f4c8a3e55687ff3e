// A keep-alive connection of a client, light enough for thousands of requests a second beside four gateways. It checks
// that every response has its rate-limit headers.
import { connect, type Socket } from "node:net";
import { sixFields } from "../support/contract-fields.ts";

export interface Asked {
  readonly number: number;
  readonly sentMs: number;
  readonly answeredMs: number;
  /** Of the gateway. */
  readonly port: number;
  /** 0: the connection ended without an answer. */
  readonly status: number;
  /** NaN if there is none. */
  readonly retryAfterSeconds: number;
  /** Rate-limit headers that an answer lacks. */
  readonly missing: readonly string[];
}

/** By CLOCK_MONOTONIC, as the upstream's thread reads it too. */
export const monotonicMs = (): number => Number(process.hrtime.bigint()) / 1e6;

let lastNumber = 0;
const fields = [...sixFields, "Date"].map((name) => `\r\n${name.toLowerCase()}: `);

export class ClientLine {
  readonly #port: () => number;
  readonly #address: string;
  #socket: Socket | null = null;
  /** Of the last connection. */
  #connectedTo = 0;
  #received = "";
  #answered: ((head: string) => void) | null = null;

  /** `port`: asked again for each connection, since a gateway that is started again has another. */
  constructor(port: () => number, address: string) {
    this.#port = port;
    this.#address = address;
  }

  /** One at a time. `path`: without the number that makes the request recognizable; `query`: with its question mark. */
  async ask(path: string, query = ""): Promise<Asked> {
    lastNumber += 1;
    const number = lastNumber;
    const socket = this.#socket ?? this.#connect();
    const port = this.#connectedTo;
    const sentMs = monotonicMs();
    const head = await new Promise<string>((resolve) => {
      this.#answered = resolve;
      socket.write(`GET ${path}/${number}${query} HTTP/1.1\r\nHost: a\r\n\r\n`);
    });
    const answeredMs = monotonicMs();
    const status = Number(head.slice(9, 12));
    const lower = head.toLowerCase();
    const retryAfter = /\r\nretry-after: (\d+)/.exec(lower);
    const missing = status === 0 ? [] : fields.filter((name) => !lower.includes(name)).map((name) => name.trim());
    return {
      number,
      sentMs,
      answeredMs,
      port,
      status,
      retryAfterSeconds: Number(retryAfter?.[1] ?? Number.NaN),
      missing,
    };
  }

  close(): void {
    this.#socket?.destroy();
  }

  #connect(): Socket {
    this.#connectedTo = this.#port();
    const socket = connect({ port: this.#connectedTo, host: "127.0.0.1", localAddress: this.#address, noDelay: true });
    this.#socket = socket;
    this.#received = "";
    socket.on("error", () => {});
    socket.on("data", (data) => this.#read(data.toString("latin1")));
    socket.on("end", () => this.#lose(socket));
    socket.on("close", () => this.#lose(socket));
    return socket;
  }

  /** A connection that the gateway ends while nothing is asked must not get the next request. */
  #lose(socket: Socket): void {
    socket.destroy();
    if (this.#socket !== socket) return;
    this.#socket = null;
    this.#answer("");
  }

  #read(text: string): void {
    this.#received += text;
    const end = this.#received.indexOf("\r\n\r\n");
    if (end === -1) return;
    const head = this.#received.slice(0, end + 2);
    const length = Number(/\r\ncontent-length: (\d+)/i.exec(head)?.[1] ?? 0);
    if (this.#received.length < end + 4 + length) return;
    this.#received = "";
    if (/\r\nconnection: close/i.test(head)) {
      this.#socket?.destroy();
      this.#socket = null;
    }
    this.#answer(head);
  }

  #answer(head: string): void {
    const answered = this.#answered;
    this.#answered = null;
    answered?.(head);
  }
}
