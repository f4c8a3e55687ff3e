// Counts names in memory that does not grow: the Space-Saving summary (Metwally, Agrawal, El Abbadi: 2005), in portions. A
// count is never too low, and says by how much it may be too high. A name with more than its share of everything that was
// counted (all of it divided by the capacity) is always there.

/** At least `count - error` were counted, and at most `count`. */
export interface BoundedCount {
  count: number;
  error: number;
}

export class LargestCounts<Name, Entry extends BoundedCount> {
  readonly capacity: number;
  /** For up to twice as many names as the capacity, so that the smallest counts are looked for once in so many new names. */
  readonly entries = new Map<Name, Entry>();
  /** The most that may have been counted of a name that is not there. */
  floor = 0;

  /** `capacity`: names, from 1. */
  constructor(capacity: number) {
    this.capacity = capacity;
  }

  /** Adds a name that is not there, with what is known of it. */
  enter(name: Name, entry: Entry): void {
    entry.count += this.floor;
    entry.error += this.floor;
    this.entries.set(name, entry);
    if (this.entries.size >= 2 * this.capacity) this.prune();
  }

  /** Forgets the names with the smallest counts if there are more than the capacity. */
  prune(): void {
    const excess = this.entries.size - this.capacity;
    if (excess <= 0) return;
    const counts = new Float64Array(this.entries.size);
    let at = 0;
    for (const { count } of this.entries.values()) {
      counts[at] = count;
      at += 1;
    }
    counts.sort();
    this.floor = counts[excess - 1] as number;
    let equal = excess - counts.indexOf(this.floor);
    for (const [name, { count }] of this.entries) {
      if (count > this.floor || (count === this.floor && equal === 0)) continue;
      if (count === this.floor) equal -= 1;
      this.entries.delete(name);
    }
  }
}
