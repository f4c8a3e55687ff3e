// Judges what a shard has answered to requests, beside the script's model: all keys of a request are granted or none is, a
// request is refused only while one of its keys has no room, and nothing is taken of the others. On one server, the thread
// must tell the request the same.
import type { Grant, Want } from "../../src/limits/store/call-batch.ts";
import {
  type CounterAnswer,
  type CounterItem,
  type EqualRequests,
  type Item,
  leaseIdOf,
  type ScriptAnswer,
} from "../../src/limits/store/script-call.ts";
import { isLeasedByRequest, type ScriptModel } from "./script-model.ts";
import type { VirtualTime } from "./virtual-time.ts";

/** For so long it is known what room counters had. */
const memoryMs = 10_000;

/** What a call has left in a counter. */
interface Room {
  readonly atMs: number;
  readonly units: number;
}

/** One counter of a call, counted again. */
class Counted {
  readonly item: CounterItem;
  readonly answer: CounterAnswer;
  /** What was free when the first request was judged, and what the requests were granted since. */
  free: number;
  granted: number;

  constructor(item: CounterItem, answer: CounterAnswer, model: ScriptModel) {
    this.item = item;
    this.answer = answer;
    this.free = Math.max(0, item.limit - (model.unitsOf(item.key) - answer.granted));
    this.granted = answer.askedGranted * item.step;
  }

  get left(): number {
    return this.free - this.granted;
  }
}

export class Judgements {
  /** Says what is wrong. */
  violate: (text: string) => void = () => {};
  /** Policies that refuse nothing. */
  shadows: ReadonlySet<string> = new Set();
  readonly #time: VirtualTime;
  readonly #rooms = new Map<string, Room[]>();

  constructor(time: VirtualTime) {
    this.#time = time;
  }

  /** A call was answered, and the model has what it left. */
  called(items: readonly Item[], requests: readonly EqualRequests[], answer: ScriptAnswer, model: ScriptModel): void {
    const counters = items.map((item, i) => countedOf(item, answer.items[i], model));
    for (const counter of counters) if (counter !== null) this.#checkSingle(counter);
    for (const [i, { needs, count }] of requests.entries()) {
      let fitting = 0;
      while (fitting < count && needs.every(({ item, units }) => (counters[item]?.left ?? 0) >= units)) {
        for (const { item, units } of needs) if (counters[item] != null) counters[item].granted += units;
        fitting += 1;
      }
      if (answer.requests[i] !== fitting)
        this.violate(`of ${count} requests for ${needs.length} keys, ${answer.requests[i]} granted, ${fitting} fit`);
    }
    const asked = requests.reduce((sum, { count }) => sum + count, 0);
    for (const counter of counters) if (counter !== null) this.#checkTaken(counter, asked, model);
  }

  #checkSingle({ item, answer, free }: Counted): void {
    const fitting = Math.min(item.asked, Math.floor(free / item.step));
    if (answer.askedGranted !== fitting)
      this.violate(`${item.key}: ${answer.askedGranted} of ${item.asked} granted, ${fitting} fit`);
  }

  /** What the requests that were refused wanted is left. */
  #checkTaken(counter: Counted, requests: number, model: ScriptModel): void {
    const { item, answer, granted } = counter;
    const expected = granted + answer.ahead;
    const leases = isLeasedByRequest(item) ? item.asked + requests : 1;
    const ids = new Set(Array.from({ length: leases }, (_, place) => leaseIdOf(item.id, place)));
    const taken = model.unitsOfLeases(item.key, ids);
    if (answer.granted !== expected || taken !== expected)
      this.violate(`${item.key}: ${answer.granted} units granted, ${taken} taken, for requests for ${expected}`);
    const nowMs = this.#time.nowMs;
    const rooms = (this.#rooms.get(item.key) ?? []).filter(({ atMs }) => atMs > nowMs - memoryMs);
    rooms.push({ atMs: nowMs, units: counter.left - answer.ahead });
    this.#rooms.set(item.key, rooms);
  }

  /** A thread has told a request what came of what it wanted since an instant. */
  told(wants: readonly Want[], grants: readonly Grant[], sinceMs: number): void {
    const kinds = new Set(grants.map(({ kind }) => kind));
    if (kinds.size > 1 && (kinds.has("granted") || kinds.has("alone")))
      this.violate(`a request was told ${[...kinds].join(" and ")}`);
    const refusing = wants.filter((_, i) => grants[i]?.kind === "refused");
    const isByShadow = refusing.length > 0 && refusing.every(({ key }) => this.shadows.has(key.policy.text));
    if (isByShadow && refusing.length < wants.length) this.violate("a shadow policy has refused a request");
    for (const [i, { key, units }] of wants.entries()) {
      if (grants[i]?.kind !== "refused") continue;
      const rooms = this.#rooms.get(key.storeKey) ?? [];
      if (!rooms.some((room) => room.atMs >= sinceMs && room.units < units))
        this.violate(`${key.storeKey} has refused ${units}, and had room`);
    }
  }
}

function countedOf(item: Item, answer: ScriptAnswer["items"][number] | undefined, model: ScriptModel): Counted | null {
  if (!("id" in item) || answer?.item !== "counter" || !answer.isInPeriod || answer.isForeign) return null;
  return new Counted(item, answer, model);
}
