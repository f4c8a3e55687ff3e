// The traffic of a bad hour, shortened: well-behaved clients all the time, then one client that sends too much, many new
// clients, an upstream that fails and then is slow, somebody who guesses tokens, and a store that loses everything. It makes
// most counters move.
import { createServer, type IncomingMessage, request as requestHttp, type Server } from "node:http";
import { request as requestHttps } from "node:https";
import { type AddressInfo, connect, type Socket } from "node:net";
import { WebSocket, WebSocketServer } from "ws";
import type { Cleanup } from "../support/cleanup.ts";
import { seededRandom } from "../support/random.ts";
import type { RedisServer } from "../support/redis-servers.ts";

export interface LoadedGateway {
  readonly port: number;
  /** The authority's certificate in PEM; null without TLS. */
  readonly ca: string | null;
}

export const token = "a-token-for-the-load";

const calmPerSecond = 24;
const ticksPerSecond = 10;

type Mood = "well" | "broken" | "slow";

export interface MoodyUpstream {
  readonly url: string;
  mood: Mood;
  close(): Promise<void>;
}

/** Answers in a few milliseconds while it is well; speaks WebSocket. */
export async function startMoodyUpstream(cleanup: Cleanup): Promise<MoodyUpstream> {
  const random = seededRandom(1);
  const server: Server = createServer((req, res) => {
    req.resume();
    req.on("error", ignoreBreak);
    if (upstream.mood === "broken" && random() < 0.7) {
      req.socket.destroy();
      return;
    }
    const slowMs = upstream.mood === "slow" ? 300 + 900 * random() : 0;
    const farMs = req.url?.includes("reports") === true ? 80 : 0;
    setTimeout(() => answer(req, res.writeHead(statusOf(req, random()))), 4 + 12 * random() + slowMs + farMs);
  });
  const answer = (req: IncomingMessage, res: { end(body?: string): void }): void =>
    res.end(req.method === "HEAD" ? undefined : '{"transactions":[]}');
  const webSockets = new WebSocketServer({ server });
  webSockets.on("connection", (socket) => socket.on("message", (text) => socket.send(text)));
  const url = await new Promise<string>((resolve) => {
    server.listen(0, "127.0.0.1", () => resolve(`http://127.0.0.1:${(server.address() as AddressInfo).port}`));
  });
  const close = (): Promise<void> =>
    new Promise((resolve) => {
      for (const socket of webSockets.clients) socket.terminate();
      server.close(() => resolve());
      server.closeAllConnections();
    });
  const upstream: MoodyUpstream = { url, mood: "well", close };
  cleanup(() => (server.listening ? close() : undefined));
  return upstream;
}

function statusOf(req: IncomingMessage, chance: number): number {
  if (req.url?.includes("unknown") === true) return 404;
  return chance < 0.005 ? 500 : 200;
}

/** Sends the load for `durationMs`. `cleanup` closes whatever is still open. */
export async function playMixedLoad(
  cleanup: Cleanup,
  gateways: readonly LoadedGateway[],
  upstream: MoodyUpstream,
  store: RedisServer,
  durationMs: number,
): Promise<void> {
  const clients = cleanup(new Clients(gateways, seededRandom(2)));
  clients.openTunnels();
  const events = [
    { at: 0.9, happen: () => store.kill() },
    { at: 0.93, happen: () => store.restart() },
  ];
  const startedMs = performance.now();
  const ticks = Math.round((durationMs / 1000) * ticksPerSecond);
  for (let tick = 0; tick < ticks; tick += 1) {
    const at = tick / ticks;
    upstream.mood = during(at, 0.5, 0.6) ? "broken" : during(at, 0.66, 0.8) ? "slow" : "well";
    if (at >= (events[0]?.at ?? 1)) await events.shift()?.happen();
    clients.calm(calmPerSecond / ticksPerSecond);
    if (during(at, 0.2, 0.45)) clients.hammer(2);
    if (during(at, 0.3, 0.45)) clients.crowd(2);
    if (during(at, 0.8, 0.95)) clients.guessTokens(1);
    if (tick % ticksPerSecond === 0) clients.doOddThings();
    // Follows the clock, so that a busy machine does not delay the later events.
    const nextMs = startedMs + ((tick + 1) * 1000) / ticksPerSecond;
    await new Promise((resolve) => setTimeout(resolve, Math.max(0, nextMs - performance.now())));
  }
  upstream.mood = "well";
}

function during(at: number, from: number, until: number): boolean {
  return at >= from && at < until;
}

interface Sent {
  readonly method?: string;
  readonly path?: string;
  readonly client: string;
  readonly bearer?: string | null;
  readonly body?: string;
  readonly leaveAfterMs?: number;
}

class Clients {
  readonly #gateways: readonly LoadedGateway[];
  readonly #random: () => number;
  readonly #open = new Set<{ destroy(): void }>();
  #owed = 0;
  #crowd = 0;
  #turn = 0;

  constructor(gateways: readonly LoadedGateway[], random: () => number) {
    this.#gateways = gateways;
    this.#random = random;
  }

  close(): void {
    for (const open of this.#open) open.destroy();
  }

  /** Forty clients, each far below its limit. */
  calm(requests: number): void {
    for (this.#owed += requests; this.#owed >= 1; this.#owed -= 1) {
      const client = `192.0.2.${1 + Math.floor(40 * this.#random())}`;
      const chance = this.#random();
      if (chance < 0.7) this.#send({ client, path: "/v2/transactions?limit=5" });
      else if (chance < 0.8) this.#send({ client, path: "/v1/reports/monthly" });
      else if (chance < 0.9) this.#send({ client, method: "POST", path: "/v2/transactions", body: "{}" });
      else if (chance < 0.94) this.#send({ client, method: "HEAD", path: "/v1/me" });
      else if (chance < 0.97) this.#send({ client, path: "/v2/unknown" });
      else if (chance < 0.985) this.#send({ client, bearer: null });
      else this.#send({ client, path: "/somewhere/else" });
    }
  }

  /** One client that ignores every 429. */
  hammer(requests: number): void {
    for (let i = 0; i < requests; i += 1) this.#send({ client: "198.51.100.7" });
  }

  /** Clients that send one request each. */
  crowd(requests: number): void {
    for (let i = 0; i < requests; i += 1) {
      this.#crowd += 1;
      this.#send({ client: `203.0.${this.#crowd >> 8}.${this.#crowd & 255}` });
    }
  }

  guessTokens(requests: number): void {
    for (let i = 0; i < requests; i += 1) this.#send({ client: "198.51.100.8", bearer: `guess-${this.#random()}` });
  }

  /** Rare requests, about one per second, in turn. */
  doOddThings(): void {
    const client = "192.0.2.200";
    const odd = [
      () => this.#send({ client, path: "/v1/..%2fv2/x" }),
      () => this.#send({ client, path: "/v1/reports/monthly", leaveAfterMs: 20 }),
      () => this.#sendBytes("GET /v2/x\r\n\r\n"),
      () => this.#send({ client, method: "POST", body: "x".repeat(2048) }),
      () => this.#sendBytes("GET /v2/x HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"),
    ];
    odd[this.#turn % odd.length]?.();
    this.#turn += 1;
  }

  /** Two WebSockets at each gateway, with a message every second. */
  openTunnels(): void {
    for (const { port, ca } of [...this.#gateways, ...this.#gateways]) {
      const url = `${ca === null ? "ws" : "wss"}://localhost:${port}/v2/live`;
      const headers = { Authorization: `Bearer ${token}`, "X-Forwarded-For": "192.0.2.90" };
      const socket = new WebSocket(url, { headers, ...(ca === null ? {} : { ca }) });
      const talk = setInterval(() => socket.readyState === WebSocket.OPEN && socket.send("hello"), 1000);
      socket.on("error", ignoreBreak);
      this.#open.add({
        destroy() {
          clearInterval(talk);
          socket.terminate();
        },
      });
    }
  }

  #send({ client, method = "GET", path = "/v2/me", bearer = token, body, leaveAfterMs }: Sent): void {
    const { port, ca } = this.#anyGateway();
    const headers = {
      "X-Forwarded-For": client,
      ...(bearer === null ? {} : { Authorization: `Bearer ${bearer}` }),
      ...(body === undefined ? {} : { "Content-Length": `${body.length}` }),
    };
    const options = { host: "localhost", family: 4, port, method, path, headers };
    const sent = ca === null ? requestHttp(options) : requestHttps({ ...options, ca });
    this.#keep(sent);
    sent.on("response", (response) => response.resume().on("error", ignoreBreak));
    sent.on("error", ignoreBreak);
    sent.end(body);
    if (leaveAfterMs !== undefined) setTimeout(() => sent.destroy(), leaveAfterMs);
  }

  /** Without TLS, so at a gateway with TLS the handshake fails. */
  #sendBytes(bytes: string): void {
    for (const { port } of this.#gateways) {
      const socket: Socket = connect(port, "127.0.0.1", () => socket.end(bytes));
      this.#keep(socket);
      socket.on("error", ignoreBreak).resume();
    }
  }

  #keep(open: { destroy(): unknown; once(event: "close", listener: () => void): unknown }): void {
    const kept = { destroy: () => void open.destroy() };
    this.#open.add(kept);
    open.once("close", () => this.#open.delete(kept));
  }

  #anyGateway(): LoadedGateway {
    const gateway = this.#gateways[Math.floor(this.#gateways.length * this.#random())];
    if (gateway === undefined) throw new Error("no gateway");
    return gateway;
  }
}

function ignoreBreak(): void {}
