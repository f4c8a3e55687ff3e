// Shares the event loop between peers: while several are connected, each has a bounded number of reads in one iteration
// of the loop. Otherwise a peer with a thousand busy connections would be read a thousand times for each time that
// another one is, and all others would wait for it. What a peer sends meanwhile waits in the kernel, as it does in front
// of a slow server.
import type { Socket } from "node:net";
import { handleOf } from "./stall-watch.ts";

/** A peer with fewer busy connections notices nothing. */
const readsInIteration = 32;

interface Reader {
  readonly peer: string;
  readonly sockets: Set<Socket>;
  /** Not read at the moment, the longest first. */
  readonly stopped: Set<Socket>;
  reads: number;
}

export class PeerTurns {
  readonly #readers = new Map<string, Reader>();
  /** Those that were read in this iteration, or have connections that are not read. */
  readonly #active = new Set<Reader>();
  #isScheduled = false;

  add(socket: Socket, peer: string): PeerTurn {
    let reader = this.#readers.get(peer);
    if (reader === undefined) {
      reader = { peer, sockets: new Set(), stopped: new Set(), reads: 0 };
      this.#readers.set(peer, reader);
    }
    reader.sockets.add(socket);
    return new PeerTurn(this, reader, socket);
  }

  /** For PeerTurn. */
  leave(reader: Reader, socket: Socket): void {
    reader.sockets.delete(socket);
    reader.stopped.delete(socket);
    if (reader.sockets.size === 0) this.#readers.delete(reader.peer);
  }

  /** For PeerTurn. */
  onRead(reader: Reader): void {
    if (this.#readers.size === 1) return;
    if (reader.reads === 0) this.#begin(reader);
    reader.reads += 1;
    if (reader.reads === readsInIteration) stop(reader);
  }

  #begin(reader: Reader): void {
    this.#active.add(reader);
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    setImmediate(this.#onIterationEnd);
  }

  readonly #onIterationEnd = (): void => {
    this.#isScheduled = false;
    for (const reader of this.#active) {
      reader.reads = 0;
      if (reader.stopped.size === 0) this.#active.delete(reader);
      else readOn(reader);
    }
    if (this.#active.size === 0) return;
    this.#isScheduled = true;
    setImmediate(this.#onIterationEnd);
  };
}

/** One connection among those of its peer. Whoever reads it calls `onRead` for each read, and `leave` when it closes. */
export class PeerTurn {
  readonly #turns: PeerTurns;
  readonly #reader: Reader;
  readonly #socket: Socket;

  constructor(turns: PeerTurns, reader: Reader, socket: Socket) {
    this.#turns = turns;
    this.#reader = reader;
    this.#socket = socket;
  }

  onRead(): void {
    this.#turns.onRead(this.#reader);
  }

  leave(): void {
    this.#turns.leave(this.#reader, this.#socket);
  }
}

/**
 * Stops all connections of the peer, also those with bytes that are ready: the loop asks each handle before it reads it. Only
 * the handle is stopped, so that the socket's stream keeps its state.
 */
function stop({ sockets, stopped }: Reader): void {
  for (const socket of sockets) {
    if (stopped.has(socket)) continue;
    const handle = handleOf(socket);
    if (handle?.reading !== true) continue;
    handle.readStop?.();
    stopped.add(socket);
  }
}

function readOn({ stopped }: Reader): void {
  let left = readsInIteration;
  for (const socket of stopped) {
    if (left === 0) return;
    left -= 1;
    stopped.delete(socket);
    const handle = handleOf(socket);
    // Otherwise its stream has stopped it since, and will start it.
    if (handle?.reading === true) handle.readStart?.();
  }
}
