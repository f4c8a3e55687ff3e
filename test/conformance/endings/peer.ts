// One client's connection: it sends bytes, waits for what it needs to know, and leaves in one of several ways.
import { connect, type Socket } from "node:net";
import { connect as connectTls, type SecureContext } from "node:tls";
import { within } from "../../support/eventually.ts";

export interface PeerOptions {
  readonly port: number;
  readonly localAddress?: string;
  /** Sent before TLS. */
  readonly before?: string | Buffer;
  readonly tls?: { readonly secureContext: SecureContext; readonly ALPNProtocols?: string[] };
}

/** For the longest timeout of the gateway, several times over. */
export const maxWaitMs = 20_000;
const keptCharacters = 4_000;

export class Peer {
  readonly tcp: Socket;
  /** What HTTP is written to. */
  readonly socket: Socket;
  /** Resolves when bytes can be sent. */
  readonly #ready: Promise<unknown>;
  readonly #closed: Promise<void>;
  #isClosed = false;
  #received = "";
  #wake = (): void => {};

  constructor({ tls, before, ...tcp }: PeerOptions) {
    this.tcp = connect({ host: "127.0.0.1", noDelay: true, ...tcp });
    if (before !== undefined) this.tcp.write(before);
    this.socket = tls === undefined ? this.tcp : connectTls({ socket: this.tcp, servername: "localhost", ...tls });
    this.#ready = new Promise<void>((resolve) =>
      this.socket.once(tls === undefined ? "connect" : "secureConnect", resolve),
    );
    this.#closed = new Promise<void>((resolve) => this.tcp.once("close", () => resolve()));
    this.tcp.on("error", () => {});
    this.socket.on("error", () => this.tcp.destroy());
    this.socket.on("data", (data: Buffer) => {
      this.#received = (this.#received + data.toString("latin1", Math.max(0, data.length - keptCharacters))).slice(
        -keptCharacters,
      );
      this.#wake();
    });
    void this.#closed.then(() => {
      this.#isClosed = true;
      this.#wake();
    });
  }

  /** Resolves when the connection is open, also for TLS, or closed. */
  async opened(): Promise<void> {
    await within("the connection opens", Promise.race([this.#ready, this.#closed]), maxWaitMs);
  }

  send(bytes: string | Buffer): void {
    if (this.socket.writable) this.socket.write(typeof bytes === "string" ? Buffer.from(bytes, "latin1") : bytes);
  }

  /** Waits for this text. */
  async gets(text: string): Promise<void> {
    await this.#until(`${JSON.stringify(text)} arrives`, () => {
      const at = this.#received.indexOf(text);
      if (at === -1) return false;
      this.#received = this.#received.slice(at + text.length);
      return true;
    });
  }

  /** Waits for more bytes that `isEnough` accepts. The connection may close first. */
  async answer(isEnough: (received: string) => boolean): Promise<void> {
    await this.#until("an answer arrives", () => this.#isClosed || isEnough(this.#received));
  }

  async closed(): Promise<void> {
    await within("the connection is closed", this.#closed, maxWaitMs);
  }

  destroy(): void {
    this.tcp.destroy();
  }

  async #until(what: string, condition: () => boolean): Promise<void> {
    await within(what, this.#waitFor(what, condition), maxWaitMs);
  }

  async #waitFor(what: string, condition: () => boolean): Promise<void> {
    while (!condition()) {
      if (this.#isClosed)
        throw new Error(`closed before ${what}, after ${JSON.stringify(this.#received.slice(0, 300))}`);
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }
}

export type Way = (peer: Peer) => Promise<void> | void;

/** How a client leaves. In the last two, the gateway closes the connection. */
export const ways = {
  closes: ({ socket }) => void socket.destroy(),
  resets: ({ tcp }) => void tcp.resetAndDestroy(),
  "ends its side": async (peer) => {
    peer.socket.end();
    peer.socket.resume();
    await peer.closed();
  },
  stays: (peer) => peer.closed(),
} satisfies Readonly<Record<string, Way>>;
