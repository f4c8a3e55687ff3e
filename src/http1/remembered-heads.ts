// Remembers the heads of responses that an upstream has sent last. Most heads equal an earlier one, except for the values of
// Date, which is removed, and of Content-Length: such a head is not parsed again. The memory is bounded, and all connections
// to an upstream share it.
import { isImfFixdate } from "../core/clock.ts";
import type { ResponseHead, VariablePositions } from "./response-head.ts";

/** Longer heads are not remembered. */
const maxBytes = 2 * 1024;
/** One head is remembered for each length modulo this. */
const slotCount = 32;
const dateBytes = "Sun, 06 Nov 1994 08:49:37 GMT".length;

interface Slot {
  /** The last head, in the first `length` bytes. */
  readonly bytes: Buffer;
  length: number;
  head: ResponseHead;
  positions: VariablePositions;
}

export class RememberedHeads {
  readonly #slots = new Array<Slot | null>(slotCount).fill(null);

  /** Returns what is known of a head of this length that begins at `at`; null if it has to be parsed. */
  find(bytes: Buffer, at: number, length: number): ResponseHead | null {
    const slot = this.#slots[length % slotCount] ?? null;
    if (slot === null || slot.length !== length || at + length > bytes.length) return null;
    const known = slot.bytes;
    if (bytes.compare(known, 0, length, at, at + length) === 0) return slot.head;
    const { date, length: size, lengthDigits: digits } = slot.positions;
    let isSameSize = true;
    for (let i = 0; i < length; i += 1) {
      if (bytes[at + i] === known[i]) continue;
      if (date >= 0 && i >= date && i < date + dateBytes) {
        if (!isImfFixdate(bytes.toString("latin1", at + date, at + date + dateBytes))) return null;
        i = date + dateBytes - 1;
      } else if (size >= 0 && i >= size && i < size + digits) {
        if (!areDigits(bytes, at + size, digits)) return null;
        isSameSize = false;
        i = size + digits - 1;
      } else {
        return null;
      }
    }
    bytes.copy(known, 0, at, at + length);
    if (!isSameSize) slot.head = withSize(slot, bytes.toString("latin1", at + size, at + size + digits));
    return slot.head;
  }

  /** Remembers a head that has been parsed. `length`: with the empty line. */
  remember(bytes: Buffer, at: number, length: number, head: ResponseHead): void {
    const { positions } = head;
    if (positions === null || length > maxBytes) return;
    const slot = this.#slots[length % slotCount] ?? {
      bytes: Buffer.allocUnsafeSlow(maxBytes),
      length,
      head,
      positions,
    };
    this.#slots[length % slotCount] = slot;
    bytes.copy(slot.bytes, 0, at, at + length);
    slot.length = length;
    slot.head = head;
    slot.positions = positions;
  }
}

function areDigits(bytes: Buffer, from: number, count: number): boolean {
  for (let i = from; i < from + count; i += 1) {
    const byte = bytes[i] as number;
    if (byte < 0x30 || byte > 0x39) return false;
  }
  return true;
}

/** Returns the head with another Content-Length of as many digits. */
function withSize({ head, positions: { lengthInLines: at } }: Slot, digits: string): ResponseHead {
  const lines = at < 0 ? head.lines : head.lines.slice(0, at) + digits + head.lines.slice(at + digits.length);
  return { ...head, framing: Number(digits), lines };
}
