// Formats numbers as a dashboard does, and chooses readable marks for an axis.
const binary = ["B", "KiB", "MiB", "GiB", "TiB"];

export function written(value: number, unit: string): string {
  switch (unit) {
    case "percentunit":
      return `${digits(value * 100)} %`;
    case "s":
      return time(value);
    case "bytes":
      return bytes(value);
    case "reqps":
      return `${digits(value)} req/s`;
    case "cps":
      return `${digits(value)}/s`;
    default:
      return digits(value);
  }
}

/** Marks from 0 to at least `max`, in steps of 1, 2 or 5 times a power of ten of the unit that is displayed. */
export function axisMarks(max: number, unit: string, count = 4): number[] {
  if (!(max > 0)) return [0, 1];
  const base = unit === "bytes" ? 1024 ** Math.floor(Math.log(max) / Math.log(1024)) : unit === "s" ? timeBase(max) : 1;
  const rough = max / base / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = ([1, 2, 5, 10].find((times) => times * power >= rough) ?? 10) * power * base;
  return Array.from({ length: Math.ceil(max / step - 1e-9) + 1 }, (_, i) => i * step);
}

function timeBase(seconds: number): number {
  if (seconds < 120) return 1;
  return seconds < 7200 ? 60 : seconds < 172_800 ? 3600 : 86_400;
}

function digits(value: number): string {
  if (value === 0) return "0";
  const size = Math.abs(value);
  const places = size >= 100 ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : 3;
  return String(Number(value.toFixed(places)));
}

function time(seconds: number): string {
  if (seconds === 0) return "0 s";
  if (seconds < 0.001) return `${digits(seconds * 1e6)} µs`;
  if (seconds < 1) return `${digits(seconds * 1000)} ms`;
  if (seconds < 120) return `${digits(seconds)} s`;
  if (seconds < 7200) return `${digits(seconds / 60)} min`;
  return seconds < 172_800 ? `${digits(seconds / 3600)} h` : `${digits(seconds / 86_400)} d`;
}

function bytes(value: number): string {
  const power = value > 0 ? Math.min(binary.length - 1, Math.floor(Math.log(value) / Math.log(1024))) : 0;
  return `${digits(value / 1024 ** power)} ${binary[power]}`;
}
