// What closes the things that a test or a benchmark opens.

type Opened = { destroy(): unknown } | { close(): unknown } | { stop(): unknown };

export interface Cleanup {
  /** Takes a function that closes something. */
  (close: () => unknown): void;
  /** Takes what was opened, and returns it. */
  <T extends Opened>(opened: T): T;
}

/** Gives the functions that close to `add`. */
export function cleanupTo(add: (close: () => unknown) => void): Cleanup {
  function cleanup(close: () => unknown): void;
  function cleanup<T extends Opened>(opened: T): T;
  function cleanup(opened: Opened | (() => unknown)): unknown {
    add(typeof opened === "function" ? opened : () => close(opened));
    return opened;
  }
  return cleanup;
}

function close(opened: Opened): unknown {
  if ("destroy" in opened) return opened.destroy();
  return "close" in opened ? opened.close() : opened.stop();
}
