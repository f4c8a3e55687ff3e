// Where a key is, or would be, in the table. Used again for each request, because an object for each would cost more.
import { CounterKey } from "../../core/counter-key.ts";

const noKey = new CounterKey(0, 0, 0, 0, false);

export class Cursor {
  slot = 0;
  /** The key that was asked for, and the client that is counted if there is no room for it. */
  key = noKey;
  client = noKey;
  /** The word at which the shard begins. The fields from here on may be about the client or its network instead. */
  shard = 0;
  firstBucket = 0;
  secondBucket = 0;
  fingerprint = 0;
  /** The number of the line that follows from the hash. */
  homeLine = 0;
  /** Slot, kind and whether it is an address, as in `about`. */
  identity = 0;
  a = 0;
  b = 0;
  c = 0;
  d = 0;
  /** The word of the key's line; 0 if it is not stored. */
  line = 0;
  /** The entry of the key that goes if this one is added; 0 if none has to. */
  victimAt = 0;
  victimEntry = 0;

  setKey({ a, b, c, d }: Pick<CounterKey, "a" | "b" | "c" | "d">): void {
    this.a = a;
    this.b = b;
    this.c = c;
    this.d = d;
  }
}
