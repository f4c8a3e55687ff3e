// Loaded before a gateway: its main thread is busy for 20 ms now and then, as by a garbage collection or by neighbours.
setInterval(() => {
  const untilMs = performance.now() + 20;
  while (performance.now() < untilMs);
}, 60).unref();
