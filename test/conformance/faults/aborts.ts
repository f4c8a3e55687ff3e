// Clients that leave, at every stage of an exchange, and an upstream that leaves them the time to: it holds, answers by
// half, pours, or agrees to an upgrade, as the path says, and notes when it was let go.
import { connect, type Socket } from "node:net";
import type { Cleanup } from "../../support/cleanup.ts";
import { startLoopbackServer } from "../../support/loopback-server.ts";
import { request, response } from "../../support/stage.ts";

const offer = { fields: "Connection: Upgrade\r\nUpgrade: websocket\r\n" };
const switched = "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n";
const poured = response("x".repeat(400_000));

/** What is written before the client leaves; `id` is in the path of what the upstream holds. */
export const stages: Readonly<Record<string, (id: number, random: () => number) => string>> = {
  "before a byte": () => "",
  "in the head": (_, random) => cut(request("/v2/ok"), random),
  "in the body": (id, random) =>
    request(`/v2/held/${id}`, {
      method: "POST",
      fields: "Content-Length: 5000\r\n",
      body: cut("b".repeat(5_000), random),
    }),
  "in a chunk": (id) =>
    request(`/v2/held/${id}`, {
      method: "POST",
      fields: "Transfer-Encoding: chunked\r\n",
      body: "5\r\nhello\r\n5\r\nwo",
    }),
  "before the response's head": (id) => request(`/v2/held/${id}`),
  "before the response's head, with a body": (id) =>
    request(`/v2/held/${id}`, { method: "POST", fields: "Content-Length: 5\r\n", body: "hello" }),
  "in the response": () => request("/v2/begun"),
  "in a long response": () => request("/v2/poured"),
  "after the response": () => request("/v2/ok"),
  "with requests pipelined": (id) => request("/v2/ok") + request(`/v2/held/${id}`) + request("/v2/ok").repeat(3),
  "before the upgrade": (id) => request(`/v2/held/${id}`, offer),
  "in a tunnel": () => `${request("/v2/switched", offer)}early bytes`,
};

function cut(text: string, random: () => number): string {
  return text.slice(0, Math.floor(random() * text.length));
}

export interface Departure {
  readonly bytes: string;
  /** Calls back when the request is held at the upstream, if it ever is. */
  readonly onHeld: (held: () => void) => void;
  readonly onLeave: () => void;
}

/**
 * Connects, writes, and leaves: after a moment, or soon after the request is held or the first byte has come back.
 * Resolves when the socket is closed.
 */
export async function leave(port: number, departure: Departure, random: () => number): Promise<void> {
  const socket = connect({ port, host: "127.0.0.1", localAddress: `127.0.0.${1 + Math.floor(random() * 200)}` });
  const [how, isPatient, momentMs] = [random(), random() < 0.6, random() * 10];
  const leaveNow = (): void => {
    clearTimeout(timer);
    departure.onLeave();
    if (how < 0.4) socket.destroy();
    else if (how < 0.7) socket.resetAndDestroy();
    else socket.end();
  };
  let timer = setTimeout(leaveNow, isPatient ? 100 : momentMs);
  const soon = (): void => {
    if (!isPatient || socket.writableEnded) return;
    clearTimeout(timer);
    timer = setTimeout(leaveNow, momentMs / 5);
  };
  socket.on("error", () => {});
  socket.once("data", soon);
  departure.onHeld(soon);
  socket.write(departure.bytes, "latin1");
  socket.resume();
  // Also behind a reset, by which the gateway may close a connection as well: `once` of node:events would reject.
  await new Promise((resolve) => socket.once("close", resolve));
  clearTimeout(timer);
}

export interface PatientUpstream {
  readonly url: string;
  readonly openSockets: () => number;
  /** How long after `left(id)` the connection of a held request was closed, one for each that was held by then. */
  readonly cancelledAfterMs: readonly number[];
  left(id: number): void;
  /** Calls back once, if the request ever is held. */
  onHeld(id: number, held: () => void): void;
  /** Requests that are held now. */
  readonly heldNow: () => number;
}

export async function startPatientUpstream(cleanup: Cleanup): Promise<PatientUpstream> {
  const held = new Set<number>();
  const leftAtMs = new Map<number, number>();
  const cancelledAfterMs: number[] = [];

  const watchers = new Map<number, () => void>();

  const hold = (socket: Socket, id: number): void => {
    held.add(id);
    watchers.get(id)?.();
    watchers.delete(id);
    socket.once("close", () => {
      held.delete(id);
      const atMs = leftAtMs.get(id);
      if (atMs !== undefined) cancelledAfterMs.push(performance.now() - atMs);
      leftAtMs.delete(id);
    });
  };
  const { url, sockets } = await startLoopbackServer(cleanup, (socket) => {
    socket.on("data", (data) => {
      const path = /^\S+ \/v2\/(\w+)(?:\/(\d+))? HTTP/.exec(data.toString("latin1"));
      if (path?.[1] === "ok") socket.write(response("ok"));
      if (path?.[1] === "held") hold(socket, Number(path[2]));
      if (path?.[1] === "begun") socket.write("HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nhalf");
      if (path?.[1] === "poured") socket.write(poured);
      if (path?.[1] === "switched") socket.write(`${switched}welcome`);
    });
  });
  return {
    url,
    openSockets: () => sockets.size,
    cancelledAfterMs,
    left: (id) => void (held.has(id) && leftAtMs.set(id, performance.now())),
    onHeld: (id, held) => void watchers.set(id, held),
    heldNow: () => held.size,
  };
}
