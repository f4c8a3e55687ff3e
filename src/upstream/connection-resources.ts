// What the connections to an upstream have in common: buffers, the heads that they remember, and one timer.
import { DeferredWrites, TextWrites, WriteBuffer } from "../exchange/writes.ts";
import { RememberedHeads } from "../http1/response-parser.ts";
import { ReadBuffers } from "./socket-reader.ts";

export interface ConnectionResources {
  readonly heads: RememberedHeads;
  readonly ticks: Ticks;
  readonly buffers: ReadBuffers;
  readonly writeBuffer: WriteBuffer;
  readonly deferredWrites: DeferredWrites;
  readonly textWrites: TextWrites;
}

export function createConnectionResources(textWrites = new TextWrites()): ConnectionResources {
  return {
    heads: new RememberedHeads(),
    ticks: new Ticks(),
    buffers: new ReadBuffers(),
    writeBuffer: new WriteBuffer(),
    deferredWrites: new DeferredWrites(),
    textWrites,
  };
}

/** A timeout is noticed at most two of these late. */
const tickMs = 100;

export interface Ticked {
  onTick(): void;
}

/**
 * The timeouts of all connections to an upstream, checked by one timer. A timer of its own for each connection would have
 * to be set again by each request and each piece of a body.
 */
export class Ticks {
  readonly #all = new Set<Ticked>();
  #timer: NodeJS.Timeout | null = null;
  #now = 0;

  /** Calls its `onTick` with each tick from now on. */
  add(each: Ticked): void {
    this.#all.add(each);
    this.#timer ??= setInterval(this.#onTick, tickMs).unref();
  }

  delete(each: Ticked): void {
    this.#all.delete(each);
  }

  /** Returns the tick at which so much time has passed, and at most two ticks more. */
  after(ms: number): number {
    // One more, because part of the current tick has passed already.
    return this.#now + Math.ceil(ms / tickMs) + 1;
  }

  isPast(tick: number): boolean {
    return this.#now >= tick;
  }

  readonly #onTick = (): void => {
    this.#now += 1;
    for (const each of this.#all) each.onTick();
    if (this.#all.size > 0 || this.#timer === null) return;
    clearInterval(this.#timer);
    this.#timer = null;
  };
}
