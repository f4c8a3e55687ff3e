// Shares the event loop between peers: in one iteration of the loop, all connections of a peer together do a bounded amount
// of work, which is reading, and answering what was read. Otherwise a peer with a thousand busy connections, or with
// thousands of pipelined requests, would make all others wait. What it sends meanwhile waits in the kernel, as it does in
// front of a slow server, or on its connection. Its connections continue one after the other, so none waits for ever.
import type { Socket } from "node:net";
import type { Turn } from "../http2/frame-reader.ts";
import { handleOf } from "./sockets.ts";

/** Of a peer, as `Turn` counts them: 32 reads, or 128 requests. */
const stepsInIteration = 4096;
/** While no other peer is connected. The next one to connect must not wait for long. */
const stepsAlone = 4 * stepsInIteration;
/** Of one connection, if few have something to do, and if many have. */
const [mostOfConnection, leastOfConnection] = [1024, 256];
/** So many peers that have to wait continue in one iteration. */
const peersInIteration = 4;
/** A read of a socket. Over HTTP/1, its first request is included. */
export const readSteps = stepsInIteration / 32;

/** All connections of one peer, or one connection of a trusted proxy, which has connections for many clients. */
interface Reader {
  /** Null: a trusted proxy. */
  readonly peer: string | null;
  readonly turns: Set<PeerTurn>;
  /** Not read at the moment, or with something to do, the longest first. */
  readonly waiting: Set<PeerTurn>;
  /** Of this iteration: for the connection at work, and for the others. */
  stepsLeft: number;
  stepsForOthers: number;
  /** The connection at work. */
  worker: PeerTurn | null;
  /** It has had a read or a request in this iteration. */
  isActive: boolean;
  /** None of its connections is read in this iteration. */
  isStopped: boolean;
}

/** A connection that has something to do. */
export interface Waiter {
  /** Does as much as its turn allows. */
  continueTurn(): void;
}

export class PeerTurns {
  readonly #readers = new Map<string, Reader>();
  readonly #active = new Set<Reader>();
  readonly #waiting = new Set<Reader>();
  #isScheduled = false;
  #iteration = 0;

  /** `peer`: null for a trusted proxy. */
  add(socket: Socket, peer: string | null): PeerTurn {
    return new PeerTurn(this, this.join(peer), socket);
  }

  /** For PeerTurn, as all below. */
  join(peer: string | null): Reader {
    const known = peer === null ? undefined : this.#readers.get(peer);
    if (known !== undefined) return known;
    const reader: Reader = {
      ...{ peer, turns: new Set(), waiting: new Set(), worker: null },
      ...{ stepsLeft: mostOfConnection, stepsForOthers: 0, isActive: false, isStopped: false },
    };
    if (peer !== null) this.#readers.set(peer, reader);
    return reader;
  }

  leave(turn: PeerTurn): void {
    const { reader } = turn;
    reader.turns.delete(turn);
    reader.waiting.delete(turn);
    if (reader.waiting.size === 0) this.#waiting.delete(reader);
    if (reader.turns.size === 0 && reader.peer !== null) this.#readers.delete(reader.peer);
  }

  onRead(turn: PeerTurn, steps: number, isWhole: boolean): boolean {
    const { reader } = turn;
    // Most reads bring one request. Counted only beside others, they cost no callback at the end of the iteration.
    if (isWhole && !reader.isActive && (reader.peer === null || this.#readers.size === 1)) return true;
    this.begin(reader);
    if (turn.startedIn === this.#iteration) {
      turn.startedIn = -1;
      reader.stepsLeft = Math.max(reader.stepsLeft, 0) + readSteps;
    }
    // TLS delivers one read as several records.
    if (reader.worker !== turn) grant(turn, mostOfConnection + steps);
    const mayRead = reader.stepsLeft > 0;
    reader.stepsLeft -= steps;
    if (isOver(reader)) this.#stop(turn);
    return mayRead;
  }

  begin(reader: Reader): void {
    if (reader.isActive) return;
    reader.isActive = true;
    this.#active.add(reader);
    const isAlone = this.#readers.size === 1 && reader.peer !== null;
    reader.stepsForOthers = (isAlone ? stepsAlone : stepsInIteration) - reader.stepsLeft;
    this.#schedule();
  }

  wait(turn: PeerTurn): void {
    const { reader } = turn;
    reader.waiting.add(turn);
    this.#waiting.add(reader);
    this.#schedule();
    if (isOver(reader)) this.#stop(turn);
  }

  /**
   * Stops reading all connections of the peer, also those with bytes that are ready: the loop asks each handle before it reads
   * it. Only the handle is stopped, so that the socket's stream keeps its state.
   */
  #stop(turn: PeerTurn): void {
    const { reader } = turn;
    const turns = reader.isStopped ? [turn] : reader.turns;
    reader.isStopped = true;
    for (const one of turns) {
      const handle = handleOf(one.socket);
      if (one.isStopped || one.startedIn === this.#iteration || handle?.reading !== true) continue;
      handle.readStop?.();
      one.isStopped = true;
      reader.waiting.add(one);
    }
    if (reader.waiting.size > 0) this.#waiting.add(reader);
  }

  #schedule(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    setImmediate(this.#onIterationEnd);
  }

  readonly #onIterationEnd = (): void => {
    this.#isScheduled = false;
    this.#iteration += 1;
    for (const reader of this.#active) {
      reader.isActive = false;
      reader.isStopped = false;
      reader.worker = null;
      reader.stepsLeft = mostOfConnection;
    }
    this.#active.clear();
    let left = Math.min(peersInIteration, this.#waiting.size);
    for (const reader of this.#waiting) {
      if (left === 0) break;
      left -= 1;
      // The others come first in the next iteration.
      this.#waiting.delete(reader);
      this.#continue(reader);
      if (reader.waiting.size > 0) this.#waiting.add(reader);
    }
    if (this.#waiting.size > 0) this.#schedule();
  };

  #continue(reader: Reader): void {
    this.begin(reader);
    const { waiting } = reader;
    let left = waiting.size;
    const steps = (reader.stepsLeft + reader.stepsForOthers) / left;
    for (const turn of waiting) {
      if (left === 0 || isOver(reader)) return;
      left -= 1;
      waiting.delete(turn);
      grant(turn, Math.min(Math.max(steps, leastOfConnection), mostOfConnection));
      turn.continue();
      if (turn.isStopped && !waiting.has(turn)) this.#start(turn);
    }
  }

  /** Its next read is paid for here, so that no other connection can take it away. */
  #start(turn: PeerTurn): void {
    turn.isStopped = false;
    const handle = handleOf(turn.socket);
    // Otherwise its stream has stopped it since, and will start it.
    if (handle?.reading !== true) return;
    turn.startedIn = this.#iteration;
    turn.reader.stepsLeft -= readSteps;
    handle.readStart();
  }
}

/** One connection among those of its peer. Whoever reads it calls `onRead` for each read, and `leave` when it closes. */
export class PeerTurn implements Turn {
  readonly socket: Socket;
  reader: Reader;
  /** The handle of the socket is not read. */
  isStopped = false;
  /** Of a stopped one that is read again. */
  startedIn = -1;
  readonly #turns: PeerTurns;
  #waiter: Waiter | null = null;

  constructor(turns: PeerTurns, reader: Reader, socket: Socket) {
    this.#turns = turns;
    this.reader = reader;
    this.socket = socket;
    reader.turns.add(this);
  }

  get stepsLeft(): number {
    return this.reader.stepsLeft;
  }

  set stepsLeft(steps: number) {
    this.reader.stepsLeft = steps;
  }

  /**
   * Counts a read, and returns whether the peer had steps left for it. `isWhole`: it brings no more than one request, or
   * `spend` is called for others.
   */
  onRead(steps: number, isWhole: boolean): boolean {
    return this.#turns.onRead(this, steps, isWhole);
  }

  /** Begins work that is not caused by a read. */
  begin(): void {
    this.#turns.begin(this.reader);
  }

  spend(steps: number): void {
    this.begin();
    this.reader.stepsLeft -= steps;
  }

  /** Has the connection continued when it is its turn. */
  wait(waiter: Waiter): void {
    this.#waiter = waiter;
    this.#turns.wait(this);
  }

  /** For PeerTurns. */
  continue(): void {
    const waiter = this.#waiter;
    this.#waiter = null;
    waiter?.continueTurn();
  }

  /** The peer has turned out to be a trusted one. */
  trust(): void {
    if (this.reader.peer === null) return;
    this.leave();
    this.reader = this.#turns.join(null);
    this.reader.turns.add(this);
    if (this.isStopped || this.#waiter !== null) this.#turns.wait(this);
  }

  leave(): void {
    this.#turns.leave(this);
  }
}

/** Gives the connection so many of the peer's steps, and leaves the rest to the others. */
function grant(turn: PeerTurn, steps: number): void {
  const { reader } = turn;
  reader.worker = turn;
  const all = reader.stepsLeft + reader.stepsForOthers;
  reader.stepsLeft = Math.min(all, steps);
  reader.stepsForOthers = all - reader.stepsLeft;
}

function isOver({ stepsLeft, stepsForOthers }: Reader): boolean {
  return stepsLeft + stepsForOthers <= 0;
}
