// One mistake in the configuration, and the one line it is told in: where, which key, what was found, what was
// expected. A line never holds a secret: whatever looks like the credentials or the query of a URL is masked.

/** Where a value was written. */
export type Origin =
  | { readonly kind: "file"; readonly file: string; readonly line: number; readonly column: number }
  | { readonly kind: "environment"; readonly variable: string }
  | { readonly kind: "command line"; readonly option: string }
  /** Nowhere: it is the default. */
  | { readonly kind: "default" };

export type ConfigError =
  | {
      readonly kind: "value";
      readonly at: Origin;
      /** Dotted, such as `policies.0.limit`; empty for the document itself. */
      readonly key: string;
      /** Ready to print, as `showFound` makes it. */
      readonly found: string;
      readonly expected: string;
    }
  | {
      readonly kind: "unknown key";
      readonly at: Origin;
      readonly key: string;
      readonly suggestion: string | null;
      /** The keys that may stand here. */
      readonly known: readonly string[];
    }
  | { readonly kind: "unknown variable"; readonly at: Origin; readonly suggestion: string | null }
  /** The file, or what stands under `key`, cannot be read or is not YAML. */
  | {
      readonly kind: "file";
      readonly file: string;
      readonly at: Origin | null;
      /** Empty for the file as a whole. */
      readonly key: string;
      readonly message: string;
    };

export function renderConfigError(error: ConfigError): string {
  switch (error.kind) {
    case "value":
      return `${renderPlace(error.at, error.key)}: found ${error.found}, expected ${error.expected}`;
    case "unknown key":
      return `${renderPlace(error.at, error.key)}: unknown key; ${
        error.suggestion === null ? `expected ${enumerate(error.known)}` : `did you mean "${error.suggestion}"?`
      }`;
    case "unknown variable":
      return `${renderOrigin(error.at)}: unknown variable; ${
        error.suggestion === null
          ? "expected HEADGATE_ and the path of a key, such as HEADGATE_UPSTREAM_URL"
          : `did you mean "${error.suggestion}"?`
      }`;
    case "file":
      return `${error.at === null ? error.file : renderPlace(error.at, error.key)}: ${error.message}`;
  }
}

/** Where it was written, and which key, as every mistake begins. */
export function renderPlace(at: Origin, key: string): string {
  return key === "" ? renderOrigin(at) : `${renderOrigin(at)}: ${key}`;
}

function renderOrigin(origin: Origin): string {
  switch (origin.kind) {
    case "file":
      return `${origin.file}:${origin.line}:${origin.column}`;
    case "environment":
      return `environment ${origin.variable}`;
    case "command line":
      return `command line ${origin.option}`;
    case "default":
      return "default";
  }
}

const maxShown = 60;

/** A value as an error shows it: text quoted, so that a missing unit or a stray blank can be seen. */
export function showFound(value: string | number | boolean | null): string {
  if (value === null || value === "") return "nothing";
  if (typeof value !== "string") return String(value);
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
