// Leases in the order in which they end, as a sorted set has them; of those that end together, in the order of their names.

/** Units of one lease; never changed, but replaced. */
export interface Entry {
  readonly id: string;
  readonly units: number;
  readonly endsUs: number;
}

export class SortedEntries {
  #sorted: Entry[] = [];
  /** Those before it have been taken. */
  #start = 0;
  #byName = new Map<string, Entry>();

  at(rank: number): Entry | undefined {
    return this.#sorted[this.#start + rank];
  }

  find(id: string, units: number): Entry | undefined {
    return this.#byName.get(nameOf(id, units));
  }

  add(entry: Entry): void {
    this.#sorted.splice(this.#rankOf(entry), 0, entry);
    this.#byName.set(nameOf(entry.id, entry.units), entry);
  }

  remove(entry: Entry): void {
    this.#sorted.splice(this.#rankOf(entry), 1);
    this.#byName.delete(nameOf(entry.id, entry.units));
  }

  /** Removes and returns those that end then or before, the first of them if they are more than `most`. */
  takeUntil(endUs: number, most: number): Entry[] {
    let end = this.#start;
    while (end - this.#start < most && (this.#sorted[end]?.endsUs ?? Number.POSITIVE_INFINITY) <= endUs) end += 1;
    if (end === this.#start) return [];
    const taken = this.#sorted.slice(this.#start, end);
    for (const { id, units } of taken) this.#byName.delete(nameOf(id, units));
    this.#start = end;
    if (this.#start > this.#sorted.length / 2) {
      this.#sorted = this.#sorted.slice(this.#start);
      this.#start = 0;
    }
    return taken;
  }

  endingAt(endsUs: number, most: number): Entry[] {
    const start = this.#rankOf({ id: "\0", units: 0, endsUs });
    const found: Entry[] = [];
    for (let i = start; i < start + most && this.#sorted[i]?.endsUs === endsUs; i += 1) {
      found.push(this.#sorted[i] as Entry);
    }
    return found;
  }

  /** From the last one on backwards. */
  *latest(most: number): Generator<Entry> {
    const least = Math.max(this.#start, this.#sorted.length - most);
    for (let i = this.#sorted.length - 1; i >= least; i -= 1) yield this.#sorted[i] as Entry;
  }

  copy(): SortedEntries {
    const copy = new SortedEntries();
    copy.#sorted = this.#sorted.slice(this.#start);
    copy.#byName = new Map(this.#byName);
    return copy;
  }

  /** Of the first that is not before the entry. */
  #rankOf(entry: Entry): number {
    let [low, high] = [this.#start, this.#sorted.length];
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (isBefore(this.#sorted[middle] as Entry, entry)) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

function isBefore(one: Entry, other: Entry): boolean {
  if (one.endsUs !== other.endsUs) return one.endsUs < other.endsUs;
  return nameOf(one.id, one.units) < nameOf(other.id, other.units);
}

function nameOf(id: string, units: number): string {
  return `${id}/${units}`;
}
