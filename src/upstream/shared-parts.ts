// What the connections to an upstream share.
import { DeferredWrites } from "../exchange/deferred-writes.ts";
import { TextWrites } from "../exchange/text-writes.ts";
import { WriteBuffer } from "../exchange/write-buffer.ts";
import { RememberedHeads } from "../http1/remembered-heads.ts";
import { ReadBuffers } from "./read-buffers.ts";
import { Ticks } from "./ticks.ts";

export interface SharedParts {
  readonly heads: RememberedHeads;
  readonly ticks: Ticks;
  readonly buffers: ReadBuffers;
  readonly writeBuffer: WriteBuffer;
  readonly deferredWrites: DeferredWrites;
  readonly textWrites: TextWrites;
}

export function createSharedParts(textWrites = new TextWrites()): SharedParts {
  return {
    heads: new RememberedHeads(),
    ticks: new Ticks(),
    buffers: new ReadBuffers(),
    writeBuffer: new WriteBuffer(),
    deferredWrites: new DeferredWrites(),
    textWrites,
  };
}
