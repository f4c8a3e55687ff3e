// How the gateways of tests read their clients' connections: into a shared buffer, or as streams with
// HEADGATE_TEST_READS=streams, so that the same tests show that both do the same.
import { openSharedReads } from "../../src/exchange/shared-reads-proof.ts";

export const sharesReads = process.env["HEADGATE_TEST_READS"] !== "streams";

export const testReads = sharesReads ? (await openSharedReads()).reads : null;
