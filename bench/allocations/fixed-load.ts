// An exact number of requests, which wrk cannot send: the same bytes each time, on connections that stay open from one
// call to the next, or each on its own. A connection sends the next request when it has the whole answer.
import { connect, type Socket } from "node:net";

export interface FixedLoad {
  readonly port: number;
  readonly connections: number;
  readonly request: string;
  /** Each request on a connection of its own, which the server ends. */
  readonly isFresh: boolean;
  /** Of every answer. */
  readonly status: number;
}

export class FixedLoadSender {
  readonly #load: FixedLoad;
  readonly #connections: Connection[] = [];

  constructor(load: FixedLoad) {
    this.#load = load;
  }

  /** Rejects if an answer has another status or a connection ends too early. */
  async send(requests: number): Promise<void> {
    let left = requests;
    const one = async (_: unknown, i: number): Promise<void> => {
      while (left > 0) {
        left -= 1;
        if (this.#load.isFresh) {
          const connection = new Connection(this.#load);
          await connection.ask();
          await connection.closed;
        } else {
          this.#connections[i] ??= new Connection(this.#load);
          await this.#connections[i].ask();
        }
      }
    };
    await Promise.all(Array.from({ length: this.#load.connections }, one));
  }

  close(): void {
    for (const connection of this.#connections) connection.close();
  }
}

class Connection {
  readonly closed: Promise<void>;
  readonly #socket: Socket;
  readonly #request: Buffer;
  readonly #statusLine: string;
  #unread = "";
  #answered = Promise.withResolvers<void>();

  constructor({ port, request, status }: FixedLoad) {
    this.#request = Buffer.from(request, "latin1");
    this.#statusLine = `HTTP/1.1 ${status} `;
    this.#socket = connect({ port, host: "127.0.0.1", noDelay: true });
    this.#socket.on("data", (chunk) => this.#read(chunk.toString("latin1")));
    this.#socket.on("error", (error) => this.#answered.reject(error));
    this.closed = new Promise((resolve) => {
      this.#socket.on("close", () => {
        this.#answered.reject(new Error("the gateway closed the connection before it answered"));
        resolve();
      });
    });
    // Nobody waits for an answer between two calls.
    this.#answered.promise.catch(() => {});
  }

  ask(): Promise<void> {
    this.#answered = Promise.withResolvers();
    this.#answered.promise.catch(() => {});
    this.#socket.write(this.#request);
    return this.#answered.promise;
  }

  close(): void {
    this.#socket.destroy();
  }

  #read(text: string): void {
    this.#unread += text;
    if (this.#unread.length < lengthOf(this.#unread)) return;
    const answer = this.#unread;
    this.#unread = "";
    if (answer.startsWith(this.#statusLine)) this.#answered.resolve();
    else this.#answered.reject(new Error(`expected ${this.#statusLine}but got ${answer}`));
  }
}

/** Of head and body, infinite while the head is not whole. */
function lengthOf(answer: string): number {
  const end = answer.indexOf("\r\n\r\n");
  if (end === -1) return Number.POSITIVE_INFINITY;
  const length = /\r\ncontent-length: *(\d+)/i.exec(answer)?.[1];
  if (length === undefined) throw new Error(`an answer without Content-Length: ${answer}`);
  return end + 4 + Number(length);
}
