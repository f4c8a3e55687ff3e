// The store's side of the script's codec: reads what a gateway has sent, and writes what the script returns.
import type {
  CounterItem,
  EqualRequests,
  Item,
  LeaseReport,
  ScriptAnswer,
} from "../../src/limits/store/script-call.ts";

const kinds = { s: "sliding", c: "calendar", n: "concurrency" } as const;

export interface StoreCall {
  readonly items: readonly Item[];
  readonly requests: readonly EqualRequests[];
}

export function readCall(keys: readonly string[], args: readonly string[]): StoreCall {
  let at = 0;
  const text = (): string => {
    const value = args[at];
    if (value === undefined) throw new Error("an argument of the script is missing");
    at += 1;
    return value;
  };
  let keyAt = 0;
  const nextKey = (): string => {
    const key = keys[keyAt];
    if (key === undefined) throw new Error("a key of the script is missing");
    keyAt += 1;
    return key;
  };
  const items: Item[] = [];
  const read = (key: string): Item => {
    const form = text();
    const [letter = ""] = form;
    if (letter === "f") return { item: "forget", key, markKey: nextKey(), seq: Number(text()), keepMs: Number(text()) };
    if (letter === "g")
      return { item: "gateways", key, gateway: text(), silenceUs: Number(text()), ageUs: Number(text()) };
    if (letter === "v") return { item: "secret", key, proposed: text() };
    const kind = letter.toLowerCase();
    if (kind !== "s" && kind !== "c" && kind !== "n") throw new Error(`an item of kind ${letter}`);
    return readCounter(
      { key, item: kinds[kind], asked: Number(form.slice(1)), isPlain: kind !== letter },
      text,
      nextKey,
    );
  };
  while (keyAt < keys.length) items.push(read(nextKey()));
  if (new Set(keys).size < keys.length) throw new Error("a call has a key twice");
  const requests: EqualRequests[] = [];
  while (at < args.length) {
    const count = Number(text());
    const needs = Array.from({ length: Number(text()) }, () => ({ item: Number(text()), units: Number(text()) }));
    requests.push({ count, needs });
  }
  return { items, requests };
}

/** `isPlain`: nothing is wanted ahead, reported or told. */
function readCounter(
  { key, item, asked, isPlain }: Pick<CounterItem, "key" | "item" | "asked"> & { isPlain: boolean },
  text: () => string,
  nextKey: () => string,
): CounterItem {
  const number = (): number => Number(text());
  const [limit, leaseUs, id, step] = [number(), number(), text(), number()];
  const windowUs = item === "sliding" ? number() : 0;
  const [keepUs, untilUs] = item === "calendar" ? [number(), number()] : [0, 0];
  const always = { item, key, limit, windowUs, untilUs, keepUs, leaseUs, step, asked, id };
  if (isPlain) return { ...always, ahead: 0, reports: [], told: null };
  const ahead = number();
  const reports: LeaseReport[] = [];
  for (let open = number(); open > 0; open -= 1) {
    reports.push({ id: text(), granted: number(), spent: number(), ageUs: number() });
  }
  const units = number();
  const told = units < 0 ? null : { units, ageUs: number(), forgivenUntil: number(), markKey: nextKey() };
  return { ...always, ahead, reports, told };
}

export function writeAnswer({ timeUs, items, requests }: ScriptAnswer): unknown {
  const values: unknown[] = [String(timeUs), ...requests];
  for (const item of items) {
    if (item.item === "gateways") values.push(item.origin, item.gateways);
    else if (item.item === "secret") values.push(item.value);
    else if (item.item === "forget") values.push(1);
    else {
      const { isInPeriod, isForeign, isVoid, granted, free, resetUs, fitsUs, leasedUs, isNew } = item;
      const state = isForeign ? 2 : isVoid ? 3 : isInPeriod ? 1 : 0;
      values.push(state, granted, free, resetUs, fitsUs, leasedUs, isNew ? 1 : 0);
    }
  }
  return values;
}
