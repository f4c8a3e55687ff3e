// The other clients: ordinary requests at a steady rate, each from one of many addresses, and how long each took. A
// request that has to wait for a free connection counts from the moment at which it was due.
import { connect, type Socket } from "node:net";
import { connect as connectTls } from "node:tls";
import type { OthersKind } from "./attack.ts";

export type OthersOrder =
  | {
      readonly kind: "begin";
      readonly what: OthersKind;
      readonly port: number;
      readonly perSecond: number;
      readonly addresses: number;
      readonly isTls: boolean;
      readonly isProxied: boolean;
    }
  /** Answered with what happened since the last order. */
  | { readonly kind: "read" }
  | { readonly kind: "end" };

export interface OthersReply {
  /** In milliseconds, sorted. A request without an answer has the time that it has waited. */
  readonly latenciesMs: readonly number[];
  /** Requests without an answer, or with a status other than 200 or 101. */
  readonly failed: number;
  readonly answered: number;
}

type Begin = Extract<OthersOrder, { kind: "begin" }>;

/** A request without an answer after this time has failed. */
const timeoutMs = 5_000;

class OtherClient {
  #socket: Socket | null = null;
  #received = "";
  #dueMs = 0;
  readonly #address: string;
  readonly #order: Begin;
  readonly #onDone: (client: OtherClient, latencyMs: number, isOk: boolean) => void;

  constructor(address: string, order: Begin, onDone: (client: OtherClient, ms: number, isOk: boolean) => void) {
    this.#address = address;
    this.#order = order;
    this.#onDone = onDone;
  }

  get dueMs(): number {
    return this.#dueMs;
  }

  request(dueMs: number): void {
    this.#dueMs = dueMs;
    this.#received = "";
    this.#socket ??= this.#open();
    this.#socket.write(requestOf(this.#order.what, this.#address));
  }

  fail(): void {
    this.#drop();
    this.#done(false);
  }

  destroy(): void {
    this.#drop();
  }

  #open(): Socket {
    const { port, isTls, isProxied } = this.#order;
    const tcp = connect({ port, host: "127.0.0.1", localAddress: this.#address, noDelay: true });
    if (isProxied) tcp.write(`PROXY TCP4 ${this.#address} 127.0.0.1 5000 80\r\n`);
    const socket = isTls ? connectTls({ socket: tcp, servername: "localhost", rejectUnauthorized: false }) : tcp;
    const onEnd = (): void => {
      if (this.#socket !== socket) return;
      if (this.#dueMs > 0) this.fail();
      else this.#drop();
    };
    tcp.on("error", onEnd);
    socket.on("error", onEnd).on("end", onEnd).on("close", onEnd);
    socket.on("data", (data: Buffer) => this.#read(data.toString("latin1")));
    return socket;
  }

  #read(data: string): void {
    this.#received += data;
    const headEnd = this.#received.indexOf("\r\n\r\n");
    if (headEnd === -1) return;
    const length = Number(/^content-length: *(\d+)/im.exec(this.#received)?.[1] ?? Number.NaN);
    const isWhole = this.#received.length >= headEnd + 4 + length;
    if (!isWhole && !Number.isNaN(length)) return;
    const isOk = this.#received.startsWith(this.#order.what === "upgrade" ? "HTTP/1.1 101" : "HTTP/1.1 200");
    const isKept = this.#order.what === "kept" || this.#order.what === "check";
    if (!isKept || !isOk || /^connection: close/im.test(this.#received)) this.#drop();
    this.#done(isOk);
  }

  #drop(): void {
    const socket = this.#socket;
    this.#socket = null;
    socket?.destroy();
  }

  #done(isOk: boolean): void {
    if (this.#dueMs === 0) return;
    const latencyMs = performance.now() - this.#dueMs;
    this.#dueMs = 0;
    this.#onDone(this, latencyMs, isOk);
  }
}

function requestOf(what: OthersKind, address: string): string {
  const target = {
    kept: "/v1/ok",
    fresh: "/v1/ok",
    upgrade: "/v1/tunnel/echo",
    check: "/auth-request",
    probe: "/livez",
  };
  const fields = {
    kept: "",
    fresh: "Connection: close\r\n",
    upgrade: "Connection: Upgrade\r\nUpgrade: websocket\r\n",
    check: `X-Original-Method: GET\r\nX-Original-URI: /v1/ok\r\nX-Forwarded-For: ${address}\r\n`,
    probe: "Connection: close\r\n",
  };
  return `GET ${target[what]} HTTP/1.1\r\nHost: api.test\r\nAuthorization: Bearer other\r\n${fields[what]}\r\n`;
}

class Others {
  readonly #clients: OtherClient[];
  readonly #idle: OtherClient[];
  readonly #waitingSinceMs: number[] = [];
  readonly #beganMs = performance.now();
  readonly #timer: NodeJS.Timeout;
  readonly #perSecond: number;
  #asked = 0;
  #latenciesMs: number[] = [];
  #failed = 0;
  #answered = 0;

  constructor(order: Begin) {
    this.#perSecond = order.perSecond;
    this.#clients = Array.from(
      { length: order.addresses },
      (_, i) => new OtherClient(`127.0.2.${i + 1}`, order, (client, ms, isOk) => this.#onDone(client, ms, isOk)),
    );
    this.#idle = [...this.#clients];
    this.#timer = setInterval(() => this.#tick(), 1);
  }

  read(): OthersReply {
    const nowMs = performance.now();
    const open = this.#clients.filter(({ dueMs }) => dueMs > 0).map(({ dueMs }) => nowMs - dueMs);
    const waiting = this.#waitingSinceMs.map((sinceMs) => nowMs - sinceMs);
    const latenciesMs = [...this.#latenciesMs, ...open, ...waiting].sort((a, b) => a - b);
    const reply = { latenciesMs, failed: this.#failed, answered: this.#answered };
    this.#latenciesMs = [];
    this.#failed = 0;
    this.#answered = 0;
    return reply;
  }

  end(): void {
    clearInterval(this.#timer);
    for (const client of this.#clients) client.destroy();
  }

  #tick(): void {
    const nowMs = performance.now();
    const due = ((nowMs - this.#beganMs) / 1000) * this.#perSecond;
    for (; this.#asked < due; this.#asked += 1) this.#waitingSinceMs.push(nowMs);
    for (const client of this.#clients) if (client.dueMs > 0 && nowMs - client.dueMs > timeoutMs) client.fail();
    while (this.#waitingSinceMs.length > 0 && this.#idle.length > 0) {
      this.#idle.shift()?.request(this.#waitingSinceMs.shift() ?? nowMs);
    }
  }

  #onDone(client: OtherClient, latencyMs: number, isOk: boolean): void {
    this.#latenciesMs.push(latencyMs);
    if (isOk) this.#answered += 1;
    else this.#failed += 1;
    this.#idle.push(client);
  }
}

let others: Others | null = null;
process.on("message", (order: OthersOrder) => {
  const reply = others?.read() ?? { latenciesMs: [], failed: 0, answered: 0 };
  if (order.kind === "begin") {
    others?.end();
    others = new Others(order);
  } else if (order.kind === "end") {
    others?.end();
    others = null;
  }
  process.send?.(reply);
});
process.on("disconnect", () => process.exit());
