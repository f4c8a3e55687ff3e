// The mount, loaded when the first request needs it or when the start is over, whatever comes first: it is a fifth of a
// start, and simple requests, with which most connections begin, do without it.
import type { IncomingMessage, Server, ServerResponse } from "node:http";
import type { FastifyInstance } from "fastify";
import { asError } from "../../core/failure.ts";
import type { MountOptions, RequestHandler } from "./mount.ts";

/** How long after the start nothing has to need it before it is loaded all the same. */
const calmMs = 1_000;

type Waiting = readonly [req: IncomingMessage, res: ServerResponse];

export class LazyMount {
  readonly #options: Omit<MountOptions, "createServer">;
  readonly #server: Server;
  #handler: RequestHandler = (req, res) => this.#wait(req, res);
  #waiting: Waiting[] = [];
  #loading: Promise<FastifyInstance | null> | null = null;
  readonly #timer: NodeJS.Timeout;

  /** `server` is the one whose requests it is given. */
  constructor(options: Omit<MountOptions, "createServer">, server: Server) {
    this.#options = options;
    this.#server = server;
    this.#timer = setTimeout(() => this.#load(), calmMs).unref();
  }

  carry(req: IncomingMessage, res: ServerResponse): void {
    this.#handler(req, res);
  }

  async close(): Promise<void> {
    clearTimeout(this.#timer);
    await (await this.#loading)?.close();
  }

  #wait(req: IncomingMessage, res: ServerResponse): void {
    this.#waiting.push([req, res]);
    this.#load();
  }

  #load(): void {
    if (this.#loading !== null) return;
    this.#loading = this.#create().catch((error: Error) => {
      // The installation is not whole. What is simple is still carried.
      this.#handler = (req) => this.#options.onFailure(req, error);
      return null;
    });
    void this.#loading.then(() => this.#serveWaiting());
  }

  async #create(): Promise<FastifyInstance> {
    const { createMount } = await import("./mount.ts");
    let handler: RequestHandler = this.#handler;
    const createServer = (own: RequestHandler): Server => {
      handler = own;
      return this.#server;
    };
    const mount = await createMount({ ...this.#options, createServer });
    this.#handler = handler;
    return mount;
  }

  #serveWaiting(): void {
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const [req, res] of waiting) {
      try {
        this.#handler(req, res);
      } catch (error) {
        this.#options.onFailure(req, asError(error));
      }
    }
  }
}
