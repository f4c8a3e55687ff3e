// Which keys have values that can be compared with others while there are mistakes: those that nothing was wrong with,
// and that nobody seems to have meant with a key or a variable that is none.
import type { ConfigError } from "./config-error.ts";
import { variableName } from "./environment.ts";

/** Whether all of these dotted keys are sound. */
export type IsSound = (...keys: readonly string[]) => boolean;

export function soundness(errors: readonly ConfigError[]): IsSound {
  return (...keys) => keys.every((key) => !errors.some((error) => concerns(error, key)));
}

function concerns(error: ConfigError, key: string): boolean {
  switch (error.kind) {
    case "value":
    case "file":
      return isAtOrAbove(error.key, key);
    case "unknown key":
      return error.suggestion !== null && isAtOrAbove(error.suggestion, key);
    case "unknown variable":
      return error.suggestion === variableName(key.split("."));
  }
}

function isAtOrAbove(wrong: string, key: string): boolean {
  return wrong === "" || key === wrong || key.startsWith(`${wrong}.`);
}
