// Loaded before a gateway, it has no units leased ahead: each request asks the store, whatever its limit.
import { registerHooks } from "node:module";

const leasedAheadFrom = "export const leasedAheadFrom = 1000;";

registerHooks({
  load(url, context, nextLoad) {
    const loaded = nextLoad(url, context);
    if (!/\/core\/store-link\.[jt]s$/.test(url)) return loaded;
    const source = String(typeof loaded.source === "string" ? loaded.source : Buffer.from(loaded.source as Uint8Array));
    if (!source.includes(leasedAheadFrom)) throw new Error(`store-link does not have: ${leasedAheadFrom}`);
    return { ...loaded, source: source.replace(leasedAheadFrom, "export const leasedAheadFrom = Infinity;") };
  },
});
