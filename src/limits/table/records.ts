// The keys of a shard as records that do not depend on its layout, for a snapshot.
import { eachPair } from "./key-log.ts";
import {
  bucketAt,
  bucketEntries,
  isAddressKey,
  keyLine,
  kindOf,
  type kinds,
  lineAt,
  lineOfEntry,
  linesPerBucket,
  lineWords,
  slotOf,
} from "./layout.ts";

export interface CounterRecord {
  readonly slot: number;
  /** Of the key: its own, or the client or the network that is counted in its place. */
  readonly kind: keyof typeof kinds;
  readonly key: readonly [number, number, number, number];
  readonly isAddress: boolean;
  /**
   * The oldest first. `at`: of a sliding policy a tick, of a calendar the number of a period, of concurrency that of a
   * thread.
   */
  readonly entries: readonly (readonly [at: number, units: number])[];
}

const kindNames = [undefined, "own", "client", "network"] as const;

/** `shard`: a copy of one whole shard. */
export function* recordsOf(shard: Int32Array): Iterable<CounterRecord> {
  const buckets = Math.floor(shard.length / lineWords / linesPerBucket);
  for (let bucket = 0; bucket < buckets; bucket += 1) {
    const begin = bucketAt(0, bucket) + 1;
    for (let at = begin; at < begin + bucketEntries && shard[at] !== 0; at += 1) {
      yield recordAt(shard, lineAt(0, lineOfEntry(shard[at] as number)));
    }
  }
}

function recordAt(shard: Int32Array, line: number): CounterRecord {
  const word = (i: number): number => shard[line + i] as number;
  const about = word(keyLine.about);
  const entries: [number, number][] = [];
  eachPair(shard, 0, line, (at) => {
    const units = shard[at + 1] as number;
    if (units > 0) entries.push([(shard[at] as number) >>> 0, units]);
    return true;
  });
  return {
    slot: slotOf(about),
    kind: kindNames[kindOf(about)] ?? "own",
    key: [word(0), word(1), word(2), word(3)],
    isAddress: isAddressKey(about),
    entries,
  };
}
