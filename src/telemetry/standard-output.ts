// Writes to a pipe without blocking. A blocking write to a pipe that nobody reads holds a thread, and the process cannot end
// before that thread: a stalled log collector would keep a gateway from shutting down.
import { constants, fstatSync, openSync } from "node:fs";

/**
 * Returns a non-blocking descriptor of the same pipe. It opens the pipe again, because setting the flag on the given
 * descriptor would set it for every process that shares it. Returns `fd` itself if it is no pipe, or cannot be opened again
 * (no /proc, another user's).
 */
export function withoutBlocking(fd: number): number {
  try {
    if (!fstatSync(fd).isFIFO()) return fd;
    return openSync(`/proc/self/fd/${fd}`, constants.O_WRONLY | constants.O_NONBLOCK);
  } catch {
    // It may block, which is better than no log.
    return fd;
  }
}
