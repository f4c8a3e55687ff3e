// Request ids: UUIDs of version 4 with 122 random bits (RFC 9562, 5.4), as crypto.randomUUID makes them. That one puts each
// together from 20 texts; here many are written at once and an id is a part of their text, for a quarter of the time.
import { randomFillSync } from "node:crypto";

const idLength = 36;
/** Ids in one text. An exchange that lasts keeps the whole text in memory, so there are few. */
const idsPerText = 16;
const textLength = idLength * idsPerText;
const hexDigits = Buffer.from("0123456789abcdef");

/** The ids cannot be predicted: their bytes come from the system's generator, and none is used twice. */
export function createRequestIds(): () => string {
  // For 1,024 ids: the call costs much more than the bytes.
  const random = Buffer.allocUnsafeSlow(16 * 1024);
  let used = random.length;
  const bytes = Buffer.alloc(textLength, "-");
  let text = "";
  let at = textLength;
  const makeText = (): void => {
    if (used === random.length) {
      randomFillSync(random);
      used = 0;
    }
    for (let i = 0; i < idsPerText; i += 1, used += 16) writeId(random, used, bytes, i * idLength);
    text = bytes.toString("latin1");
    at = 0;
  };
  return () => {
    if (at === textLength) makeText();
    at += idLength;
    return text.slice(at - idLength, at);
  };
}

/** Leaves the dashes as they are. */
function writeId(random: Buffer, from: number, into: Buffer, start: number): void {
  random[from + 6] = ((random[from + 6] as number) & 0x0f) | 0x40;
  random[from + 8] = ((random[from + 8] as number) & 0x3f) | 0x80;
  let at = start;
  for (let i = 0; i < 16; i += 1) {
    if (i === 4 || i === 6 || i === 8 || i === 10) at += 1;
    const byte = random[from + i] as number;
    into[at] = hexDigits[byte >> 4] as number;
    into[at + 1] = hexDigits[byte & 0x0f] as number;
    at += 2;
  }
}
