// Parses durations and sizes: a whole number and a unit without a blank between them. A number without a unit is not a
// duration, because some readers would take it for seconds and some for milliseconds.

const msPerUnit = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const;
const bytesPerUnit = {
  B: 1,
  kB: 1000,
  KB: 1000,
  MB: 1000 ** 2,
  GB: 1000 ** 3,
  TB: 1000 ** 4,
  KiB: 1024,
  MiB: 1024 ** 2,
  GiB: 1024 ** 3,
  TiB: 1024 ** 4,
} as const;

export const durationUnits: readonly string[] = Object.keys(msPerUnit);
/** Those that a size of this program is written with; the others are accepted. */
export const sizeUnits: readonly string[] = ["KiB", "MiB", "GiB"];

/** What `parseDuration` and `parseSize` accept, for the JSON Schema. */
export const durationPattern = "^[0-9]{1,12}(ms|s|m|h|d)$";
export const sizePattern = "^[0-9]{1,15}(B|kB|KB|MB|GB|TB|KiB|MiB|GiB|TiB)$";

/** Milliseconds; undefined if the text is not a duration. "0" needs no unit. */
export function parseDuration(text: string): number | undefined {
  return text === "0" ? 0 : parseQuantity(text, durationPattern, msPerUnit);
}

/** Bytes; undefined if the text is not a size. */
export function parseSize(text: string): number | undefined {
  return parseQuantity(text, sizePattern, bytesPerUnit);
}

/** In the largest unit of which it is a whole number. */
export function formatDuration(ms: number): string {
  const units = Object.entries(msPerUnit).filter(([, each]) => ms % each === 0);
  const [unit, each] = units.at(-1) ?? ["ms", 1];
  return `${ms / each}${unit}`;
}

function parseQuantity(text: string, pattern: string, units: Readonly<Record<string, number>>): number | undefined {
  if (!new RegExp(pattern).test(text)) return undefined;
  const digits = /^[0-9]+/.exec(text)?.[0] ?? "";
  const quantity = Number(digits) * (units[text.slice(digits.length)] ?? Number.NaN);
  return Number.isSafeInteger(quantity) ? quantity : undefined;
}
