// Reports values that are valid by themselves and contradict each other. The error is reported at a key that was written;
// two defaults never contradict each other.
import { type ConfigError, type IsSound, valueError } from "./config-error.ts";
import { defaultOf } from "./definition.ts";
import { nodeAt } from "./paths.ts";
import { describe, originOf, type Raw, rawAt } from "./raw.ts";

/**
 * Reports that the value of `key` contradicts those of `others`, unless there already is an error about one of them. If the
 * key was not written, the place is that of the first of the others that was written.
 */
export type Refuse = (key: string, expected: string, ...others: string[]) => void;

export function collect(raw: Raw | undefined, isSound: IsSound, judge: (refuse: Refuse) => void): ConfigError[] {
  const errors: ConfigError[] = [];
  judge((key, expected, ...others) => {
    if (!isSound(key, ...others)) return;
    errors.push(valueError(originOf(raw, key, ...others), key, foundAt(raw, key), expected));
  });
  return errors;
}

function foundAt(raw: Raw | undefined, key: string): string {
  const path = key.split(".");
  const node = nodeAt(path);
  const written = rawAt(raw, path) ?? (node?.kind === "leaf" ? defaultOf(node) : undefined);
  return written === undefined ? "nothing" : describe(written, node?.kind === "leaf" && node.isSecret);
}
