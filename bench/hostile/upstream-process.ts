// The upstream of the bench: ordinary answers, an upload that is never read, large responses, tunnels, and the hostile
// responses of the attacks that come from an upstream.
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { type HostileAnswer, wireBytes } from "./attack.ts";
import { attackNamed } from "./attacks.ts";

export type UpstreamOrder =
  /** Hostile responses are written until the end. */
  | { readonly kind: "begin" | "end"; readonly names: readonly string[] }
  /** Answered with the bytes that hostile and large responses took. */
  | { readonly kind: "read" };

export interface UpstreamReply {
  readonly port: number;
  readonly bytes: number;
}

const body = Buffer.alloc(200, "x");
const piece = Buffer.alloc(64 * 1024, "x");
let bytes = 0;
const attacking = new Set<string>();

const server = createServer({ maxHeaderSize: 64 * 1024 }, (req, res) => {
  const [, , kind, rest = ""] = (req.url ?? "").split("?")[0]?.split("/") ?? [];
  if (kind === "never") return;
  if (kind === "hostile") return answerHostile(rest, req.socket);
  if (kind === "large") return answerLarge(Number(rest), res);
  req.resume().on("end", () => res.end(body));
});
server.keepAliveTimeout = 60_000;

server.on("upgrade", (req: IncomingMessage, socket: Socket) => {
  socket.on("error", () => {});
  socket.write("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
  if (req.url?.startsWith("/v1/tunnel/echo")) socket.pipe(socket);
  else if (req.url?.startsWith("/v1/tunnel/pour")) answerLargeOn(socket);
  else if (req.url?.startsWith("/v1/tunnel/stream")) streamOn(socket);
  else socket.pause();
});

function answerLarge(length: number, res: ServerResponse): void {
  res.writeHead(200, { "content-length": length });
  let left = length;
  const write = (): void => {
    while (left > 0) {
      const next = piece.subarray(0, left);
      left -= next.length;
      bytes += wireBytes(next.length);
      if (!res.write(next)) {
        res.once("drain", write);
        return;
      }
    }
    res.end();
  };
  write();
}

/** 32 MiB into a tunnel. */
function answerLargeOn(socket: Socket): void {
  for (let i = 0; i < 512; i += 1) {
    bytes += wireBytes(piece.length);
    socket.write(piece);
  }
}

/** A binary message of 1,000 bytes every 50 ms. */
function streamOn(socket: Socket): void {
  const message = Buffer.concat([Buffer.from([0x82, 126, 0x03, 0xe8]), Buffer.alloc(1_000)]);
  const timer = setInterval(() => {
    bytes += wireBytes(message.length);
    socket.write(message);
  }, 50);
  socket.resume().on("close", () => clearInterval(timer));
}

function answerHostile(name: string, socket: Socket): void {
  const answer: HostileAnswer = {
    socket,
    get isOver() {
      return socket.destroyed || !attacking.has(name);
    },
    pour: (next, options) => pour(answer, next, options),
  };
  attackNamed(name).respond?.(answer);
}

async function pour(
  answer: HostileAnswer,
  next: (i: number) => Buffer | null,
  { packetBytes, bytesPerSecond = 1_000_000 }: { packetBytes?: number; bytesPerSecond?: number } = {},
): Promise<void> {
  const perMs = bytesPerSecond / 1000;
  const beganMs = performance.now();
  let sent = 0;
  const write = (packet: Buffer): void => {
    answer.socket.write(packet);
    sent += wireBytes(packet.length);
    bytes += wireBytes(packet.length);
  };
  for (let i = 0; !answer.isOver; i += 1) {
    const whole = next(i);
    if (whole === null) return;
    const size = packetBytes ?? whole.length;
    for (let at = 0; at < whole.length && !answer.isOver; at += size) {
      write(whole.subarray(at, at + size));
      const isAhead = sent > (performance.now() - beganMs) * perMs;
      if (isAhead || answer.socket.writableLength > 64 * 1024) await sleep(2);
    }
  }
}

server.on("connection", (socket) => socket.on("error", () => {}));
server.listen(0, "127.0.0.1");
process.on("message", (order: UpstreamOrder) => {
  if (order.kind === "begin") {
    bytes = 0;
    for (const name of order.names) attacking.add(name);
  } else if (order.kind === "end") {
    for (const name of order.names) attacking.delete(name);
  }
  process.send?.({ port: (server.address() as AddressInfo).port, bytes } satisfies UpstreamReply);
});
process.on("disconnect", () => process.exit());
