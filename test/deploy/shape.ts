// Shapes of YAML documents, by name: what is no key of a shape, has another type, or is required and missing, is told
// with its place. A key that nobody here uses is not listed, so that a misspelled one cannot pass for one that exists.

/** What is wrong with a value, each as `place: what`; empty if nothing is. */
export type Shape = (value: unknown, place: string) => string[];

export function oneOf(...words: readonly (string | number | boolean)[]): Shape {
  return (value, place) => (words.some((word) => word === value) ? [] : [`${place}: not one of ${words.join(", ")}`]);
}

export function text(pattern = /^[\s\S]+$/): Shape {
  return (value, place) =>
    typeof value === "string" && pattern.test(value) ? [] : [`${place}: not a text like ${pattern}`];
}

export function whole(least: number, most = Number.MAX_SAFE_INTEGER): Shape {
  const fits = (value: unknown): boolean => Number.isInteger(value) && Number(value) >= least && Number(value) <= most;
  return (value, place) => (fits(value) ? [] : [`${place}: not a whole number from ${least} to ${most}`]);
}

export function either(...shapes: readonly Shape[]): Shape {
  return (value, place) => {
    const flaws = shapes.map((shape) => shape(value, place));
    return flaws.some((found) => found.length === 0) ? [] : (flaws[0] ?? []);
  };
}

/** At least one, unless told otherwise. */
export function list(item: Shape, least = 1): Shape {
  return (value, place) => {
    if (!Array.isArray(value)) return [`${place}: not a list`];
    const tooFew = value.length < least ? [`${place}: fewer than ${least}`] : [];
    return [...tooFew, ...value.flatMap((one, i) => item(one, `${place}[${i}]`))];
  };
}

export function mapping(key: RegExp, item: Shape): Shape {
  return (value, place) => {
    if (!isMapping(value)) return [`${place}: not a mapping`];
    return Object.entries(value).flatMap(([name, one]) => [
      ...(key.test(name) ? [] : [`${place}.${name}: not a name like ${key}`]),
      ...item(one, `${place}.${name}`),
    ]);
  };
}

/** A key with a question mark at its end may be missing. */
export function object(keys: Readonly<Record<string, Shape>>): Shape {
  const shapes = new Map(Object.entries(keys).map(([key, shape]) => [key.replace(/\?$/, ""), shape]));
  const required = Object.keys(keys).filter((key) => !key.endsWith("?"));
  return (value, place) => {
    if (!isMapping(value)) return [`${place}: not a mapping`];
    const missing = required.filter((key) => !Object.hasOwn(value, key)).map((key) => `${place}.${key}: missing`);
    const wrong = Object.entries(value).flatMap(([key, one]) => {
      const shape = shapes.get(key);
      return shape === undefined ? [`${place}.${key}: unknown`] : shape(one, `${place}.${key}`);
    });
    return [...missing, ...wrong];
  };
}

export type Mapping = Readonly<Record<string, unknown>>;

export function isMapping(value: unknown): value is Mapping {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
