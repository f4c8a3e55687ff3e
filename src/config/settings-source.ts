// Where the settings come from, so that they can be loaded again.
import type { Settings } from "../core/settings.ts";
import type { Raw } from "./raw.ts";

export interface SettingsSource {
  /** The path of the configuration file, absolute. */
  readonly file: string;
  /** `isStart`: the start has loaded them, and logged what it made of them. */
  load(isStart?: boolean): SettingsLoaded;
}

export type SettingsLoaded =
  | {
      readonly ok: true;
      readonly settings: Settings;
      /** The place of a key and the key, with which an error about its file begins. */
      readonly place: (key: string) => string;
      /** As they were written. */
      readonly raw: Raw | undefined;
    }
  | { readonly ok: false; readonly errors: readonly string[] };
