// How the gateways of tests read their clients' connections: into a shared buffer, or as streams with
// HEADGATE_TEST_READS=streams, so that the same tests show that both do the same. Texts are then written by streams too.
import { openSharedReads } from "../../src/exchange/prove-sockets.ts";
import { TextWrites } from "../../src/exchange/socket-writes.ts";

export const sharesReads = process.env["HEADGATE_TEST_READS"] !== "streams";

const proven = sharesReads ? await openSharedReads() : null;

export const testReads = proven?.reads ?? null;

export const testTextWrites = new TextWrites();
if (proven?.reads) testTextWrites.useHandles(proven.textHandles);
