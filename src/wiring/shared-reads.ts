// How this thread reads the connections of clients, and writes texts, which is decided once, at its start.
import type { SharedReads } from "../exchange/shared-reads.ts";
import { openSharedReads } from "../exchange/shared-reads-proof.ts";
import type { TextWrites } from "../exchange/text-writes.ts";
import type { Logger } from "../telemetry/log.ts";

/** Resolves with null if connections have to be read as streams. Sets how `textWrites` writes. `prove` never rejects. */
export async function chooseReads(
  log: Logger,
  textWrites: TextWrites,
  prove = openSharedReads,
): Promise<SharedReads | null> {
  const proven = await prove();
  if (proven.reads === null) log.warn({ reason: proven.reason }, "connections are read as streams");
  else textWrites.useHandles(proven.textHandles);
  return proven.reads;
}
