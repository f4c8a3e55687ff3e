// How this thread reads the connections of clients, and writes texts, which is decided once, at its start.
import type { SharedReads, SocketReads } from "../exchange/shared-reads.ts";
import { openSharedReads, type ProvenReads } from "../exchange/shared-reads-proof.ts";
import type { TextWrites } from "../exchange/text-writes.ts";
import type { Logger } from "../telemetry/log.ts";

/**
 * Resolves with null if connections have to be read as streams. `isSecure`: there are some over TLS. Sets how `textWrites`
 * writes. `prove` never rejects.
 */
export async function chooseReads(
  log: Logger,
  isSecure: boolean,
  textWrites: TextWrites,
  prove = openSharedReads,
): Promise<SharedReads | null> {
  const plain = await prove();
  if (plain.reads !== null) textWrites.useHandles(plain.textHandles);
  const { reads, reason } = isSecure && plain.reads !== null ? await proveSecure(plain.reads, prove) : plain;
  if (reads === null) log.warn({ reason }, "connections are read as streams");
  return reads;
}

async function proveSecure(known: SocketReads, prove: typeof openSharedReads): Promise<ProvenReads> {
  const { makeSecureNet } = await import("../exchange/secure-net.ts");
  return prove(makeSecureNet(), undefined, known);
}
