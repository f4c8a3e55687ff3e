// How a call of the store's script is written, and how its answer is read. Arguments are flat: for each item a letter, and
// what its kind needs. So is the answer: the store's time, and for each item as many values as its kind has.
import type { CounterItem, GatewaysAnswer, Item, ItemAnswer, ScriptAnswer, SecretAnswer } from "./script-call.ts";

const letters = { sliding: "s", calendar: "c", concurrency: "n", gateways: "g", secret: "v" } as const;
/** The same counters, asked for one step and told nothing: most items, so they are written in half as many arguments. */
const plainLetters = { sliding: "S", calendar: "C", concurrency: "N" } as const;
const secretPattern = /^[0-9a-f]+$/;

export function encodeCall(items: readonly Item[]): { keys: string[]; args: string[] } {
  const keys: string[] = [];
  const args: string[] = [];
  for (const item of items) {
    keys.push(item.key);
    if (item.item === "gateways")
      args.push(letters.gateways, item.gateway, upwards(item.silenceUs), upwards(item.ageUs));
    else if (item.item === "secret") args.push(letters.secret, item.proposed);
    else pushCounter(args, item);
  }
  return { keys, args };
}

function pushCounter(args: string[], item: CounterItem): void {
  const { limit, leaseUs, step, needed, wanted, id, reports, told } = item;
  const isPlain = needed === step && wanted === step && reports.length === 0 && told === null;
  args.push((isPlain ? plainLetters : letters)[item.item], String(limit), upwards(leaseUs), id, String(step));
  if (item.item === "sliding") args.push(upwards(item.windowUs));
  if (item.item === "calendar") args.push(String(item.fromUs), String(item.untilUs));
  if (isPlain) return;
  args.push(String(needed), String(wanted), String(reports.length));
  for (const report of reports) {
    args.push(report.id, String(report.granted), String(report.spent), downwards(report.ageUs));
  }
  if (told === null) args.push("-1");
  else args.push(String(told.units), downwards(told.ageUs));
}

/** What counts for longer than it must is right, what counts for too short a time is not. */
function upwards(us: number): string {
  return String(Math.ceil(us));
}

function downwards(us: number): string {
  return String(Math.floor(us));
}

/** Throws if the reply is not one to these items. */
export function decodeAnswer(reply: unknown, items: readonly Item[]): ScriptAnswer {
  if (!Array.isArray(reply)) throw new Error("the script's reply is not a list");
  const values = new Values(reply);
  const timeUs = values.number();
  const answers = items.map((item) => readAnswer(values, item));
  values.end();
  return { timeUs, items: answers };
}

function readAnswer(values: Values, item: Item): ItemAnswer {
  switch (item.item) {
    case "gateways":
      return { item: "gateways", wasListed: values.flag(), gateways: values.number() } satisfies GatewaysAnswer;
    case "secret":
      return { item: "secret", value: values.secret() } satisfies SecretAnswer;
    default: {
      const state = values.number();
      return {
        item: "counter",
        isInPeriod: state !== 0,
        isForeign: state === 2,
        granted: values.number(),
        free: values.number(),
        resetUs: values.number(),
        fitsUs: values.number(),
        isNew: values.flag(),
      };
    }
  }
}

class Values {
  readonly #values: readonly unknown[];
  #at = 0;

  constructor(values: readonly unknown[]) {
    this.#values = values;
  }

  number(): number {
    const value = this.#values[this.#at++];
    const number = typeof value === "string" && value !== "" ? Number(value) : value;
    if (typeof number !== "number" || !Number.isSafeInteger(number))
      throw new Error("a number is missing in the script's reply");
    return number;
  }

  flag(): boolean {
    return this.number() !== 0;
  }

  secret(): string {
    const value = this.#values[this.#at++];
    if (typeof value !== "string" || !secretPattern.test(value))
      throw new Error("the secret is missing in the script's reply");
    return value;
  }

  end(): void {
    if (this.#at !== this.#values.length) throw new Error("the script's reply is too long");
  }
}
