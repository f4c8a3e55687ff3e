// Mutated requests straight to a real server, each on a connection of its own: which messages it saw there, beside what our codec
// makes of the same bytes. Whoever refuses a message, or ends the connection in front of it, reads no other message there.
//
// What these servers refuse and we read, since RFC 9112 and RFC 9110 allow it:
// - nginx: Authorization twice, `%00` in a path, a chunk of 2^60 bytes; it closes behind `Connection: "close"` and `X- close`.
// - HAProxy: an absolute form whose host is not that of Host, a WebSocket's Upgrade with a wrong key, `#` in a target.
// - Apache: the scheme ftp, Expect twice, some hosts; it closes behind an answer in front of a body that was to be expected.
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { setImmediate } from "node:timers/promises";
import type { RealServer, SeenRequest } from "../fuzz/backends/backend.ts";
import { requestCase } from "../fuzz/request-cases.ts";
import { sideBySide } from "../side-by-side.ts";
import { readOurs } from "./ours.ts";
import { compare, type Reading, type Verdict } from "./reading.ts";

/** A server that answers no more for so long waits for bytes. Where that made a difference, it gets more time. */
const waitMs = 300;
const longWaitMs = 6_000;
const lanes = Array.from({ length: 96 }, (_, lane) => lane);

interface Sent {
  readonly seed: number;
  readonly bytes: string;
  received: string;
  /** By the server, in order. */
  isClosed: boolean;
}

interface Judged {
  readonly seed: number;
  readonly verdict: Verdict;
  readonly report: string;
}

export interface ServerFigures {
  readonly verdicts: Record<string, number>;
  readonly flaws: string[];
}

/** Sends so many cases, fewer than there are ports. */
export async function compareWithServer(server: RealServer, count: number, firstSeed: number): Promise<ServerFigures> {
  const seeds = Array.from({ length: count }, (_, i) => firstSeed + i);
  const judged = await sendAll(server, seeds, waitMs);
  const doubtful = judged.filter(({ verdict }) => verdict === "different").map(({ seed }) => seed);
  const again = doubtful.length === 0 ? [] : await sendAll(server, doubtful, longWaitMs);
  const verdicts: Record<string, number> = {};
  for (const { verdict } of [...judged.filter(({ verdict }) => verdict !== "different"), ...again]) {
    verdicts[verdict] = (verdicts[verdict] ?? 0) + 1;
  }
  return { verdicts, flaws: again.filter(({ verdict }) => verdict === "different").map(({ report }) => report) };
}

async function sendAll(server: RealServer, seeds: readonly number[], patienceMs: number): Promise<Judged[]> {
  const backend = await server.start();
  try {
    const sent = new Map<number, Sent>();
    await sideBySide(lanes, seeds, async (_lane, seed) => {
      let socket = await open(backend.port);
      // The log tells connections by their ports.
      while (sent.has(socket.localPort ?? 0)) {
        socket.destroy();
        socket = await open(backend.port);
      }
      const one: Sent = { seed, bytes: requestCase(seed).bytes, received: "", isClosed: false };
      sent.set(socket.localPort ?? 0, one);
      await send(socket, one, patienceMs);
    });
    // Its log is whole then.
    await backend.stop();
    const seen = Map.groupBy(backend.take(), ({ port }) => port);
    return [...sent].map(([port, one]) => judge(server, one, seen.get(port) ?? []));
  } finally {
    await backend.stop();
    await backend.remove();
  }
}

async function open(port: number): Promise<Socket> {
  const socket = connect({ port, host: "127.0.0.1", noDelay: true });
  socket.setEncoding("latin1");
  await once(socket, "connect");
  return socket;
}

async function send(socket: Socket, sent: Sent, patienceMs: number): Promise<void> {
  const closed = new Promise<void>((resolve) => socket.once("close", () => resolve()));
  socket.on("error", () => {});
  socket.on("end", () => {
    sent.isClosed = true;
  });
  let timer = setTimeout(() => socket.destroy(), 10 * patienceMs);
  socket.on("data", (text: string) => {
    sent.received += text;
    clearTimeout(timer);
    timer = setTimeout(() => socket.destroy(), patienceMs);
  });
  for (const piece of requestCase(sent.seed).pieces) {
    if (socket.writable) socket.write(piece, "latin1");
    await setImmediate();
  }
  await closed;
  clearTimeout(timer);
}

function judge(server: RealServer, sent: Sent, seen: readonly SeenRequest[]): Judged {
  const { seed, bytes, received, isClosed } = sent;
  const ours = readOurs([bytes]);
  const theirs = readingOf(seen, received, isClosed);
  const lines = [bytes, ours, theirs, received.slice(0, 300)].map((part) => JSON.stringify(part));
  return {
    seed,
    verdict: compare(ours, theirs),
    report: `seed ${seed}, ours, ${server.name}:\n  ${lines.join("\n  ")}`,
  };
}

function readingOf(seen: readonly SeenRequest[], received: string, isClosed: boolean): Reading {
  const isRefused = /HTTP\/1\.\d [45]\d\d /.test(received) || (isClosed && !received.includes("HTTP/1."));
  // It may wait for what is under way, behind its last response.
  const isEnded = isClosed || /\r\nconnection: close\r\n/i.test(received);
  // A request of another version is refused, and may be logged, as may be a head that never ends.
  const answers = received.match(/HTTP\/1\.\d [2-5]\d\d /g)?.length ?? 0;
  const isRead = (line: string | null): line is string => line !== null && !/ HTTP\/(?!1\.)/.test(line);
  const lines = seen.flatMap(({ line }) => (isRead(line) ? [line] : [])).slice(0, answers);
  return {
    requests: lines.map((line) => ({
      target: /^\S+ +(.*?)(?: +HTTP\/\d\.\d)?$/.exec(line)?.[1] ?? line,
      body: null,
      isWhole: null,
    })),
    ending: isRefused ? "refused" : isEnded ? "ended" : "waiting",
  };
}
