// A way to ask that is measured, and that no gateway has: at most one call of a key is under way, and requests of the key that
// arrive meanwhile share the next one.
import type { Claim } from "../../src/limits/store/call-batch.ts";
import type { KeyCredits } from "../../src/limits/store/credits.ts";
import type { Store } from "../../src/limits/store/store.ts";

/** For requests with one policy. */
export function oneCallOfAKey(store: Store): void {
  const underWay = new Map<KeyCredits, Promise<unknown>>();
  const leaving = new Set<KeyCredits>();
  const ask = store.ask.bind(store);

  const askNow = (claims: readonly Claim[], credits: KeyCredits, sinceMs: number | null) => {
    const concluded = ask(claims, sinceMs);
    if (!leaving.has(credits)) {
      leaving.add(credits);
      // Until the turn ends, others join the same call.
      setImmediate(() => {
        leaving.delete(credits);
        underWay.set(credits, concluded);
        void concluded.then(() => underWay.delete(credits));
      });
    }
    return concluded;
  };

  store.ask = async (claims, sinceMs) => {
    const [first] = claims;
    if (first === undefined) return ask(claims, sinceMs);
    const { credits } = first;
    const before = underWay.get(credits);
    if (before === undefined) return askNow(claims, credits, sinceMs);
    const waitsSinceMs = sinceMs ?? store.clock.monotonicMs();
    await before;
    return askNow(claims, credits, waitsSinceMs);
  };
}
