// What goes in comes out, byte by byte: over HTTP/1.1, HTTP/2, tunnels and the plugin, in both directions, by length, in
// chunks and in frames, with TLS on either side and without, while clients and the upstream pause, read slowly, write odd
// pieces, stall until the other end must wait, break off and reset. What arrives of a body that is broken off is its beginning,
// and never ends as complete. `npm run test:bytes` does the same for longer; the parts alone are in the files
// beside this one.
//
// No test before these saw that an upload over HTTP/2 reached the upstream in another order. Those with large bodies counted
// bytes and compared lengths and statuses. Those that compared contents had small bodies, which fit into the buffers that the
// system has for loopback, so no reader paused in the middle of a turn; or they were about HTTP/1.1, or about answers. And the
// test of the part paused its reader between two pieces, never while a piece was passed on to make room for the next one.
import { expect, test } from "vitest";
import { useCleanup } from "../../support/cleanup.ts";
import { isNight } from "../../support/runs.ts";
import { allPlaces, fewPlaces, passBodies, peersNeeded, skipPeers } from "./run.ts";

const cleanup = useCleanup();
const bodies = isNight ? 2_000 : 120;

test.skipIf(skipPeers)(
  `${bodies} bodies come out as they went in, over every carrier ${peersNeeded}`,
  async ({ annotate }) => {
    const places = isNight ? allPlaces : fewPlaces;
    const amounts = { amount: { bodies }, largeOneIn: isNight ? 10 : 25, uploads: 6 };
    const result = await passBodies(cleanup, { places, seed: 1, ...amounts, clients: 8 });
    await annotate(JSON.stringify(result.by));
    expect(result.faults).toEqual([]);
    expect(result.bodies).toBeGreaterThanOrEqual(bodies);
    expect(result.large).toBeGreaterThanOrEqual(bodies / 20);
    expect(result.aborted).toBeGreaterThan(bodies / 20);
  },
  600_000,
);
