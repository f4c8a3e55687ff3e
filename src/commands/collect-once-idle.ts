// Gives memory that the start has used back to the system: about 10 MiB of 95. V8's young generation grows while modules are
// loaded, and only a full garbage collection that is asked to reduce memory makes it small again. The collection stops
// the thread for some 40 ms, so there is only one, after half a second without work in the first minute.
import { createRequire } from "node:module";
import { systemClock } from "../core/clock.ts";
import { activeSeconds } from "../telemetry/telemetry.ts";

const checkMs = 500;
/** For a minute. Later the heap of a gateway that has carried traffic is larger, and the collection takes longer. */
const checks = 120;
/** Without requests, the timers of the gateway take up to 1 % of the time; with 50 requests a second, 2.5 % are used. */
const idleShare = 0.02;

/** Waits in the background. `onCollected` gets how long it took. Returns the function that ends the wait. */
export function collectOnceIdle(
  onCollected: (durationMs: number) => void,
  collect = collectGarbage,
  activeSecondsSoFar = activeSeconds,
): () => void {
  let before = activeSecondsSoFar();
  let left = checks;
  const timer = setInterval(() => {
    const now = activeSecondsSoFar();
    const activeMs = (now - before) * 1000;
    before = now;
    left -= 1;
    const isIdle = activeMs <= idleShare * checkMs;
    if (isIdle || left === 0) clearInterval(timer);
    if (!isIdle) return;
    const beganMs = systemClock.monotonicMs();
    collect();
    onCollected(Math.round(systemClock.monotonicMs() - beganMs));
  }, checkMs).unref();
  return () => clearInterval(timer);
}

type Collect = (options: { readonly type: "major"; readonly flavor: "last-resort" }) => void;

/**
 * V8 gives a function that collects garbage to contexts that are created while the flag is set, so the code of the gateway
 * never sees it. Does nothing if a version of V8 gives none.
 */
function collectGarbage(): void {
  const require = createRequire(import.meta.url);
  const { setFlagsFromString } = require("node:v8") as typeof import("node:v8");
  const { runInNewContext } = require("node:vm") as typeof import("node:vm");
  setFlagsFromString("--expose-gc");
  const collect: Collect | undefined = runInNewContext("globalThis.gc");
  // With another flag, the compiled code in Node's cache would not be used for modules that are loaded later.
  setFlagsFromString("--no-expose-gc");
  collect?.({ type: "major", flavor: "last-resort" });
}
