// Remembers how the last streams of a connection ended, because that decides what a frame for one of them means (RFC 9113,
// 5.1): frames may be under way to a stream that the gateway has reset, and are an error on one that the client has ended.

/** `reset`: by the gateway, before the client had ended it. `gone`: by the client. `ended`: by both sides. */
export type Ending = "reset" | "gone" | "ended";

/** A power of two, more than the streams that are open at once. */
const remembered = 256;
/** V8 keeps so many on its heap: an idle connection that had a few requests takes no memory of its own for them. */
const rememberedAtFirst = 16;

const codes = { reset: 1, gone: 2, ended: 3 } as const;
const endings: readonly (Ending | null)[] = [null, "reset", "gone", "ended"];

export class ClosedStreams {
  /** Half of the stream's odd number, times four, plus the code; 0: free. Made with the first stream that ends. */
  #slots: Uint32Array | null = null;

  add(stream: number, ending: Ending): void {
    this.#slots ??= new Uint32Array(rememberedAtFirst);
    const half = stream >>> 1;
    while (this.#slots.length < remembered && isOfAnother(this.#slots, half)) this.#slots = doubled(this.#slots);
    this.#slots[half & (this.#slots.length - 1)] = ((half << 2) | codes[ending]) >>> 0;
  }

  /** Returns null for a stream that ended too long ago, or was never opened. */
  endingOf(stream: number): Ending | null {
    if (this.#slots === null) return null;
    const half = stream >>> 1;
    const slot = this.#slots[half & (this.#slots.length - 1)] ?? 0;
    return slot >>> 2 === half ? (endings[slot & 3] ?? null) : null;
  }
}

/** Whether the slot for this stream has another one. */
function isOfAnother(slots: Uint32Array, half: number): boolean {
  const slot = slots[half & (slots.length - 1)] ?? 0;
  return slot !== 0 && slot >>> 2 !== half;
}

function doubled(slots: Uint32Array): Uint32Array {
  const larger = new Uint32Array(2 * slots.length);
  for (const slot of slots) if (slot !== 0) larger[(slot >>> 2) & (larger.length - 1)] = slot;
  return larger;
}
