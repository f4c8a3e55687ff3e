// A way to write to a pipe that never waits. A blocking write to a pipe nobody reads holds a thread, and the process
// cannot end before that thread does: a stuck log collector would keep a gateway from shutting down.
import { constants, fstatSync, openSync } from "node:fs";

/**
 * A descriptor of the same pipe that does not block. It is opened anew, because switching the given one over would
 * switch it for every process that shares it. Anything but a pipe, and a pipe that cannot be opened anew (no /proc,
 * another user's), is returned as it is.
 */
export function withoutBlocking(fd: number): number {
  try {
    if (!fstatSync(fd).isFIFO()) return fd;
    return openSync(`/proc/self/fd/${fd}`, constants.O_WRONLY | constants.O_NONBLOCK);
  } catch {
    // Then it may block, which is still better than no log.
    return fd;
  }
}
