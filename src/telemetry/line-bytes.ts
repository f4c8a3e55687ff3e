// The bytes of one line of ASCII, in a buffer that is used for all lines. A line that is put together as a text is a tree of
// texts, which is walked when it is written and burdens the garbage collector until then.

/** Bytes that `#reserve` leaves free behind what is added: enough for a number. */
const reservedBytes = 64;
const zero = 0x30;
const point = 0x2e;

export class LineBytes {
  bytes = Buffer.allocUnsafeSlow(2048);
  length = 0;

  /** `text` is ASCII. */
  addText(text: string): void {
    this.#reserve(text.length);
    this.length += this.bytes.write(text, this.length, "latin1");
  }

  addBytes(piece: Uint8Array): void {
    this.#reserve(piece.length);
    this.bytes.set(piece, this.length);
    this.length += piece.length;
  }

  /** Adds an integer that is not negative. A text or a piece must come before the next number, and reserves room for it. */
  addInteger(value: number): void {
    // Larger numbers are rare, and slower to calculate with.
    if (value > 0x3fffffff) this.addText(`${value}`);
    else this.#addDigits(value, digitsOf(value));
  }

  addCount(value: number | null): void {
    if (value === null) this.addText("null");
    else this.addInteger(value);
  }

  /** Adds milliseconds with three decimals; 0 for a negative time, whose end was read too early. */
  addMillis(ms: number): void {
    const micros = Math.max(0, Math.round(ms * 1000));
    const whole = Math.floor(micros / 1000);
    this.addInteger(whole);
    this.bytes[this.length] = point;
    this.length += 1;
    this.#addDigits(micros - 1000 * whole, 3);
  }

  /** Returns the line as a text. */
  text(): string {
    return this.bytes.toString("latin1", 0, this.length);
  }

  #addDigits(value: number, count: number): void {
    const { bytes, length } = this;
    let rest = value | 0;
    for (let at = length + count - 1; at >= length; at -= 1) {
      const tenth = (rest / 10) | 0;
      bytes[at] = zero + rest - 10 * tenth;
      rest = tenth;
    }
    this.length = length + count;
  }

  #reserve(count: number): void {
    const needed = this.length + count + reservedBytes;
    if (needed <= this.bytes.length) return;
    const larger = Buffer.allocUnsafeSlow(2 * needed);
    this.bytes.copy(larger, 0, 0, this.length);
    this.bytes = larger;
  }
}

function digitsOf(value: number): number {
  let count = 1;
  for (let bound = 10; value >= bound; bound *= 10) count += 1;
  return count;
}
