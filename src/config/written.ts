// The configuration as it was written, before any check: scalars, lists and mappings, each with its place, and the errors
// about them. Mappings are lists of entries, not objects, so that `__proto__` is a key like any other. The line of an error
// never contains a secret: what looks like the credentials or the query of a URL is masked.

import { enumerate } from "../core/enumerate.ts";

export type Scalar = string | number | boolean | null;

export type Raw = { readonly at: Origin } & (
  | { readonly kind: "scalar"; readonly value: Scalar }
  | { readonly kind: "list"; readonly items: readonly Raw[] }
  | { readonly kind: "mapping"; readonly entries: readonly RawEntry[] }
);

export type RawList = Extract<Raw, { readonly kind: "list" }>;

export interface RawEntry {
  readonly key: string;
  readonly keyAt: Origin;
  readonly value: Raw;
}

/** The value at a path, if there is one. */
export function rawAt(raw: Raw | undefined, path: readonly string[]): Raw | undefined {
  return path.reduce<Raw | undefined>((parent, key) => {
    if (parent?.kind === "list") return parent.items[Number(key)];
    return parent?.kind === "mapping" ? parent.entries.find((entry) => entry.key === key)?.value : undefined;
  }, raw);
}

/** The place of the first of these keys that was written; keys are dotted. */
export function originOf(raw: Raw | undefined, ...keys: readonly string[]): Origin {
  const places = keys.map((key) => rawAt(raw, key.split("."))?.at);
  return places.find((at) => at !== undefined && at.kind !== "default") ?? { kind: "default" };
}

/** The value as a message shows it. */
export function describe(raw: Raw, isSecret = false): string {
  if (raw.kind === "scalar") return isSecret ? showSecret(raw.value) : showFound(raw.value);
  if (raw.kind === "mapping") return "a mapping";
  const { items } = raw;
  if (items.length === 0) return "an empty list";
  const scalars = items.length <= 3 ? items.filter((item) => item.kind === "scalar") : [];
  return scalars.length === items.length
    ? `[${scalars.map((item) => describe(item, isSecret)).join(", ")}]`
    : `a list of ${items.length}`;
}

/** Where a value was written. */
export type Origin =
  | { readonly kind: "file"; readonly file: string; readonly line: number; readonly column: number }
  | { readonly kind: "whole file"; readonly file: string }
  | { readonly kind: "environment"; readonly variable: string }
  | { readonly kind: "command line"; readonly option: string }
  /** An object that a program passes. */
  | { readonly kind: "options" }
  /** It was not written anywhere: it is the default. */
  | { readonly kind: "default" };

export interface ConfigError {
  readonly at: Origin;
  /** Dotted, such as `policies.0.limit`; empty for the document itself. */
  readonly key: string;
  readonly message: string;
  /** The keys whose values are unknown because of this error, with all keys below them. */
  readonly about: readonly string[];
}

/** `found` is ready to print, as `showFound` returns it. */
export function valueError(at: Origin, key: string, found: string, expected: string): ConfigError {
  return { at, key, message: `found ${found}, expected ${expected}`, about: [key] };
}

export function renderConfigError({ at, key, message }: ConfigError): string {
  return `${renderPlace(at, key)}: ${message}`;
}

/** Whether no error is about any of these dotted keys. A misspelled key is about the key it is similar to. */
export type IsSound = (...keys: readonly string[]) => boolean;

export function soundness(errors: readonly ConfigError[]): IsSound {
  const wrong = new Set(errors.flatMap(({ about }) => about));
  const isWrong = (key: string): boolean => [...wrong].some((at) => at === "" || `${key}.`.startsWith(`${at}.`));
  return (...keys) => !keys.some(isWrong);
}

/** The place and the key, with which each error begins. */
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
    case "options":
      return "options";
    case "default":
      return "default";
  }
}

const maxShown = 60;

/** No valid value is longer. Masking searches the text several times, so longer text is not shown. */
const maxMasked = 1000;

/** A value as an error shows it. Text is quoted, so that a missing unit or an extra blank can be seen. */
function showFound(value: string | number | boolean | null): string {
  if (value === null || value === "") return "nothing";
  if (typeof value !== "string") return String(value);
  if (value.length > maxMasked) return `text of ${value.length} characters`;
  const masked = maskSecrets(value);
  const characters = [...masked];
  return JSON.stringify(characters.length > maxShown ? `${characters.slice(0, maxShown).join("")}…` : masked);
}

/** A value that must not be shown. */
function showSecret(value: string | number | boolean | null): string {
  if (typeof value === "number") return "a number";
  return typeof value === "string" && value !== "" ? `text of ${value.length} characters` : showFound(value);
}

/** Masks everything up to the last `@`, because passwords may contain an unencoded `/` or `@`. */
function maskSecrets(text: string): string {
  return text
    .replace(/:\/\/.*@/s, "://***@")
    .replace(/^(?!.*:\/\/)[^@]*:.*@/s, "***@")
    .replace(/^([^?]*:\/\/[^?]*)\?.*$/s, "$1?***");
}

/** The end of a message about an unknown name. */
export function didYouMean(names: readonly string[], otherwise: string): string {
  return names.length === 0 ? otherwise : `did you mean ${enumerate(names.map((name) => `"${name}"`))}?`;
}

/**
 * Reports that the value of `key` contradicts those of `others`, unless there already is an error about one of them. If the
 * key was not written, the place is that of the first of the others that was written.
 */
export type Refuse = (key: string, expected: string, ...others: string[]) => void;

/** `policies[0].limit` is `policies.0.limit`. */
export function splitPath(text: string): string[] {
  return text.replaceAll(/\[(\d+)\]/g, ".$1").split(".");
}

/** Quotes a key that contains other characters than those of known keys, and shortens a long one. */
export function joinPath(path: readonly string[]): string {
  return path.map((key) => (/^[\w-]{1,60}$/.test(key) ? key : JSON.stringify(key.slice(0, 60)))).join(".");
}
