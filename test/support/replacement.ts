// Changes to the sources, recorded as texts: they survive moved lines, and fail loudly if the text itself has changed.

export interface Replacement {
  /** Its path from the root of the repository. */
  readonly file: string;
  /** A text that the file has exactly once. */
  readonly from: string;
  readonly to: string;
}

/** Throws if the source has not exactly one such text. */
export function replaceOnce(source: string, { file, from, to }: Replacement): string {
  if (source.split(from).length !== 2) throw new Error(`${file} does not have once: ${from}`);
  return source.replace(from, () => to);
}
