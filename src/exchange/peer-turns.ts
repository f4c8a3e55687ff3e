// Shares the event loop between peers: in one iteration of the loop, all connections of a peer together do a bounded amount
// of work, which is reading, and answering what was read. Otherwise a peer with a thousand busy connections, or with
// thousands of pipelined requests, would make all others wait. What it sends meanwhile waits in the kernel, as it does in
// front of a slow server, or on its connection. Its connections continue one after the other, so none waits for ever.
import type { Socket } from "node:net";
import { requestSteps, type Turn } from "../http2/frame-reader.ts";
import { handleOf } from "./sockets.ts";

/** Of one peer, as `Turn` counts them: 32 reads, or 128 requests. */
const stepsInIteration = 4096;
/** Of a peer while no other one is connected. It is bounded, because the next peer to connect must not wait for long. */
const stepsAlone = 2 * stepsInIteration;
/** So many connections have no more steps together, if each is read once. */
const mostAlone = stepsAlone / requestSteps;
/** Of one connection: while few connections of the peer wait, and while many do. */
const [mostOfConnection, leastOfConnection] = [1024, 256];
/** Of a read of a socket. Over HTTP/1, they include its first request. */
export const readSteps = stepsInIteration / 32;

/**
 * Returns the steps of reading a target. One of odd characters takes longest: up to 4 µs for 16 of them, or 12 µs in code
 * that is not compiled yet. A long target ends the turn of its peer.
 */
export const textSteps = (length: number): number => (length > 4 * 1024 ? 2 * stepsAlone : length / 8);

/** All connections of one peer, or one connection of a trusted proxy, which has connections for many clients. */
interface Reader {
  /** Null: a trusted proxy. */
  readonly peer: string | null;
  readonly turns: Set<PeerTurn>;
  /** Connections that are stopped or have something left to do. The first one has waited longest. */
  readonly waiting: Set<PeerTurn>;
  /** In this iteration, for `worker` and for the other connections. */
  stepsLeft: number;
  stepsForOthers: number;
  worker: PeerTurn | null;
  /** The dearest read of this iteration, and what a read is expected to take in it, because one of the last took as much. */
  dearestRead: number;
  expectedRead: number;
  /** It has done something in this iteration, or has connections that wait. */
  isActive: boolean;
  /** None of its connections is read any more in this iteration. */
  isStopped: boolean;
}

/** A connection that has something to do. It does as much as its turn allows. */
export interface TurnWaiter {
  continueTurn(): void;
}

export class PeerTurns {
  /** A trusted proxy's connection is its own key. */
  readonly readers = new Map<string | Reader, Reader>();
  readonly #active = new Set<Reader>();
  #isScheduled = false;
  iteration = 0;

  /** `peer`: null for a trusted proxy. */
  add(socket: Socket, peer: string | null): PeerTurn {
    return new PeerTurn(this, this.join(peer), socket);
  }

  // For PeerTurn.

  join(peer: string | null): Reader {
    const known = peer === null ? undefined : this.readers.get(peer);
    if (known !== undefined) return known;
    const reader: Reader = {
      ...{ peer, turns: new Set(), waiting: new Set(), worker: null },
      ...{ stepsLeft: mostOfConnection, stepsForOthers: 0, isActive: false, isStopped: false },
      ...{ dearestRead: 0, expectedRead: readSteps },
    };
    this.readers.set(peer ?? reader, reader);
    return reader;
  }

  begin(reader: Reader): void {
    if (reader.isActive) return;
    reader.isActive = true;
    this.#active.add(reader);
    this.#refill(reader);
    if (!this.#isScheduled) setImmediate(this.#onIterationEnd);
    this.#isScheduled = true;
  }

  #refill(reader: Reader): void {
    const isAlone = reader.peer !== null && this.readers.size === 1;
    reader.stepsLeft = mostOfConnection;
    reader.stepsForOthers = (isAlone ? stepsAlone : stepsInIteration) - mostOfConnection;
    reader.worker = null;
    reader.isStopped = false;
  }

  readonly #onIterationEnd = (): void => {
    this.iteration += 1;
    for (const reader of this.#active) {
      this.#refill(reader);
      reader.expectedRead = Math.max(readSteps, reader.dearestRead);
      reader.dearestRead = 0;
      reader.isActive = reader.waiting.size > 0;
      if (reader.isActive) continueWaiting(reader);
      else this.#active.delete(reader);
    }
    this.#isScheduled = this.#active.size > 0;
    if (this.#isScheduled) setImmediate(this.#onIterationEnd);
  };
}

/** One connection among those of its peer. Its reader calls `onRead` for each read, and `leave` when it closes. */
export class PeerTurn implements Turn {
  readonly #turns: PeerTurns;
  readonly #socket: Socket;
  #reader: Reader;
  #waiter: TurnWaiter | null = null;
  /** The handle of the socket is not read. */
  #isStopped = false;
  /** The iteration in which reading was started again. It is not stopped before something has been read. */
  #startedIn = -1;
  /** What was paid for the read that follows. */
  #paid = 0;
  /** What its read in this iteration has taken: TLS delivers one read as up to thousands of records. */
  #readIn = -1;
  #readTaken = 0;

  constructor(turns: PeerTurns, reader: Reader, socket: Socket) {
    this.#turns = turns;
    this.#reader = reader;
    this.#socket = socket;
    reader.turns.add(this);
    // Its end is read too, and closing it takes about 50 µs.
    socket.on("end", this.#onOver).on("error", this.#onOver);
  }

  get stepsLeft(): number {
    return this.#reader.stepsLeft;
  }

  set stepsLeft(steps: number) {
    this.#reader.stepsLeft = steps;
  }

  /** Whether it waits with bytes that were read. */
  get hasBytes(): boolean {
    return this.#waiter !== null;
  }

  /**
   * Counts a read, and returns whether the peer had steps left for it. `isWhole`: the read has one request at most, or
   * `spend` counts the others. While no other peer is connected, such a read needs no callback at the end of the iteration,
   * unless one read of each of the peer's connections would take too long.
   */
  onRead(steps: number, isWhole: boolean): boolean {
    const [turns, reader] = [this.#turns, this.#reader];
    const isFree = reader.peer === null || turns.readers.size === 1;
    // TLS delivers one read as several records.
    if (isFree && isWhole && !reader.isActive && reader.worker !== this && reader.turns.size <= mostAlone) {
      reader.worker = this;
      return true;
    }
    turns.begin(reader);
    if (this.#startedIn === turns.iteration) {
      // The read is paid.
      reader.stepsLeft += this.#paid;
      this.#startedIn = -1;
    }
    const cost = isFree ? Math.min(steps, requestSteps) : steps;
    if (reader.worker !== this) this.grant(mostOfConnection + cost);
    const mayRead = reader.stepsLeft > 0;
    reader.stepsLeft -= cost;
    if (this.#readIn !== turns.iteration) this.#readTaken = 0;
    this.#readIn = turns.iteration;
    this.#readTaken += cost;
    reader.dearestRead = Math.max(reader.dearestRead, this.#readTaken);
    this.#stopIfOver();
    return mayRead;
  }

  /** Counts work that no read has brought. */
  spend(steps: number): void {
    this.#turns.begin(this.#reader);
    this.#reader.stepsLeft -= steps;
  }

  /** Has the connection continue when it is its turn. Until then it is not read, so it keeps no more than it has. */
  wait(waiter: TurnWaiter | null): void {
    this.#waiter = waiter;
    this.#turns.begin(this.#reader);
    this.#reader.waiting.add(this);
    this.#stop();
    this.#stopIfOver();
  }

  /** Lets the connection take turns alone, because its peer is a trusted proxy. */
  trust(): void {
    if (this.#reader.peer === null) return;
    this.leave();
    this.#reader = this.#turns.join(null);
    this.#reader.turns.add(this);
    this.wait(this.#waiter);
  }

  leave(): void {
    const reader = this.#reader;
    reader.turns.delete(this);
    reader.waiting.delete(this);
    if (reader.worker === this) reader.worker = null;
    if (reader.turns.size === 0) this.#turns.readers.delete(reader.peer ?? reader);
  }

  /** Gives the connection at most `steps` of the peer's, and leaves the rest to the others. */
  grant(steps: number): void {
    const reader = this.#reader;
    const all = stepsOf(reader);
    reader.stepsLeft = Math.min(all, steps);
    reader.stepsForOthers = all - reader.stepsLeft;
    reader.worker = this;
  }

  continue(): void {
    const waiter = this.#waiter;
    this.#waiter = null;
    waiter?.continueTurn();
    if (this.#waiter !== null || !this.#isStopped) return;
    const { waiting } = this.#reader;
    if (waiter !== null && waiting.size > 0) {
      // Connections that have waited for longer are read first.
      waiting.add(this);
      return;
    }
    this.#isStopped = false;
    const handle = handleOf(this.#socket);
    // If it does not read, its stream has stopped it meanwhile, and will start it.
    if (handle?.reading !== true) return;
    this.#startedIn = this.#turns.iteration;
    this.#paid = this.#reader.expectedRead;
    this.#reader.stepsLeft -= this.#paid;
    handle.readStart();
  }

  /** Stops all connections of the peer, also those with bytes that are ready: the loop asks each handle before it reads it. */
  #stopIfOver(): void {
    const reader = this.#reader;
    if (!isOver(reader)) return;
    if (reader.isStopped) this.#stop();
    else for (const turn of reader.turns) turn.#stop();
    reader.isStopped = true;
  }

  /** Only the handle is stopped, so that the socket's stream keeps its state. */
  #stop(): void {
    if (this.#isStopped || this.#startedIn === this.#turns.iteration) return;
    const handle = handleOf(this.#socket);
    if (handle?.reading !== true) return;
    handle.readStop?.();
    this.#isStopped = true;
    this.#reader.waiting.add(this);
  }

  readonly #onOver = (): void => void this.onRead(readSteps, true);
}

const stepsOf = ({ stepsLeft, stepsForOthers }: Reader): number => stepsLeft + stepsForOthers;

const isOver = (reader: Reader): boolean => stepsOf(reader) <= 0;

function continueWaiting(reader: Reader): void {
  const turns = [...reader.waiting];
  const share = stepsOf(reader) / turns.length;
  const steps = Math.min(Math.max(share, leastOfConnection), mostOfConnection);
  // What was read is answered first. Otherwise each of a thousand connections would keep what it has read.
  const [withBytes, without] = [turns.filter(({ hasBytes }) => hasBytes), turns.filter(({ hasBytes }) => !hasBytes)];
  for (const turn of [...withBytes, ...without]) {
    if (isOver(reader)) return;
    // One that waits again comes behind the others.
    if (!reader.waiting.delete(turn)) continue;
    turn.grant(steps);
    turn.continue();
  }
}
