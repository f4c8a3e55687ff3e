// One mistake in the configuration, and the one line it is told in: where, which key, what was found, what was
// expected. A line never holds a secret: whatever looks like the credentials or the query of a URL is masked.

/** Where a value was written. */
export type Origin =
  | { readonly kind: "file"; readonly file: string; readonly line: number; readonly column: number }
  | { readonly kind: "whole file"; readonly file: string }
  | { readonly kind: "environment"; readonly variable: string }
  | { readonly kind: "command line"; readonly option: string }
  /** Nowhere: it is the default. */
  | { readonly kind: "default" };

export interface ConfigError {
  readonly at: Origin;
  /** Dotted, such as `policies.0.limit`; empty for the document itself. */
  readonly key: string;
  readonly message: string;
  /** The keys whose values are unknown because of it; those below them too. */
  readonly about: readonly string[];
}

/** `found`: ready to print, as `showFound` makes it. */
export function valueError(at: Origin, key: string, found: string, expected: string): ConfigError {
  return { at, key, message: `found ${found}, expected ${expected}`, about: [key] };
}

export function renderConfigError({ at, key, message }: ConfigError): string {
  return `${renderPlace(at, key)}: ${message}`;
}

/** Whether nothing is wrong with any of these dotted keys, and nobody seems to have meant one of them. */
export type IsSound = (...keys: readonly string[]) => boolean;

export function soundness(errors: readonly ConfigError[]): IsSound {
  const wrong = new Set(errors.flatMap(({ about }) => about));
  const isWrong = (key: string): boolean => [...wrong].some((at) => at === "" || `${key}.`.startsWith(`${at}.`));
  return (...keys) => !keys.some(isWrong);
}

/** Where it was written, and which key, as every mistake begins. */
export function renderPlace(at: Origin, key: string): string {
  return key === "" ? renderOrigin(at) : `${renderOrigin(at)}: ${key}`;
}

function renderOrigin(origin: Origin): string {
  switch (origin.kind) {
    case "file":
      return `${origin.file}:${origin.line}:${origin.column}`;
    case "whole file":
      return origin.file;
    case "environment":
      return `environment ${origin.variable}`;
    case "command line":
      return `command line ${origin.option}`;
    case "default":
      return "default";
  }
}

const maxShown = 60;
/** No setting is longer, and what is masked is searched more than once. */
const maxMasked = 1000;

/** A value as an error shows it: text quoted, so that a missing unit or a stray blank can be seen. */
export function showFound(value: string | number | boolean | null): string {
  if (value === null || value === "") return "nothing";
  if (typeof value !== "string") return String(value);
  if (value.length > maxMasked) return `text of ${value.length} characters`;
  const masked = maskSecrets(value);
  const characters = [...masked];
  return JSON.stringify(characters.length > maxShown ? `${characters.slice(0, maxShown).join("")}…` : masked);
}

/** Everything up to the last `@` may be a password, since people forget to encode the `/` and the `@` in theirs. */
function maskSecrets(text: string): string {
  return text
    .replace(/:\/\/.*@/s, "://***@")
    .replace(/^(?!.*:\/\/)[^@]*:.*@/s, "***@")
    .replace(/^([^?]*:\/\/[^?]*)\?.*$/s, "$1?***");
}

/** `a, b or c`. */
export function enumerate(words: readonly string[], conjunction = "or"): string {
  if (words.length < 2) return words.join("");
  return `${words.slice(0, -1).join(", ")} ${conjunction} ${words.at(-1)}`;
}

/** The end of a message about a name that has no meaning. */
export function didYouMean(names: readonly string[], otherwise: string): string {
  return names.length === 0 ? otherwise : `did you mean ${enumerate(names.map((name) => `"${name}"`))}?`;
}
