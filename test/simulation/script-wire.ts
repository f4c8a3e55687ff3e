// The store's side of the script's codec: reads what a gateway has sent, and writes what the script returns.
import type { CounterItem, Item, LeaseReport, ScriptAnswer } from "../../src/limits/shared/script-call.ts";

const kinds = { s: "sliding", c: "calendar", n: "concurrency" } as const;

export function readCall(keys: readonly string[], args: readonly string[]): Item[] {
  let at = 0;
  const text = (): string => {
    const value = args[at];
    if (value === undefined) throw new Error("an argument of the script is missing");
    at += 1;
    return value;
  };
  const items = keys.map((key): Item => {
    const letter = text();
    if (letter === "g") return { item: "gateways", key, gateway: text(), silenceUs: Number(text()) };
    if (letter === "v") return { item: "secret", key, proposed: text() };
    if (letter !== "s" && letter !== "c" && letter !== "n") throw new Error(`an item of kind ${letter}`);
    return readCounter(key, kinds[letter], text);
  });
  if (at !== args.length) throw new Error("the script has too many arguments");
  return items;
}

function readCounter(key: string, item: CounterItem["item"], text: () => string): CounterItem {
  const number = (): number => Number(text());
  const [limit, leaseUs, step, needed, wanted] = [number(), number(), number(), number(), number()];
  const id = text();
  const windowUs = item === "sliding" ? number() : 0;
  const [fromUs, untilUs] = item === "calendar" ? [number(), number()] : [0, 0];
  const reports: LeaseReport[] = [];
  for (let open = number(); open > 0; open -= 1) {
    reports.push({ id: text(), granted: number(), spent: number(), ageUs: number() });
  }
  const units = number();
  const told = units < 0 ? null : { units, ageUs: number() };
  return { item, key, limit, windowUs, fromUs, untilUs, leaseUs, step, needed, wanted, id, reports, told };
}

export function writeAnswer({ timeUs, items }: ScriptAnswer): unknown {
  const values: unknown[] = [String(timeUs)];
  for (const item of items) {
    if (item.item === "gateways") values.push(item.wasListed ? 1 : 0, item.gateways);
    else if (item.item === "secret") values.push(item.value);
    else {
      const { isInPeriod, granted, free, resetUs, fitsUs, isNew } = item;
      values.push(isInPeriod ? 1 : 0, granted, free, resetUs, fitsUs, isNew ? 1 : 0);
    }
  }
  return values;
}
