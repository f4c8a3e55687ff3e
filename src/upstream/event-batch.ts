// The event loop takes what is ready on all sockets from the system in one batch and then handles one socket after the
// other. So bytes that are read in the batch in which a request was written, or in which its write was deferred, had come
// before the request was written, and cannot answer it. Bytes that come after the batch was taken, or that cross the
// request on its way, cannot be told from a response: HTTP/1.1 does not say which request a response answers. Such a
// response reaches the wrong client, which no proxy can prevent.

const { nodeTiming } = performance;

/** Returns a number that changes with each batch: both figures only grow, so their sum stays the same only if both do. */
export function eventBatch(): number {
  const { loopCount, events } = nodeTiming.uvMetricsInfo;
  return loopCount + events;
}
