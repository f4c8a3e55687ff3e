// What the connections to an upstream share.
import { DeferredWrites } from "../exchange/deferred-writes.ts";
import { WriteBuffer } from "../exchange/write-buffer.ts";
import { ReadBuffers } from "./read-buffers.ts";
import { RememberedHeads } from "./remembered-heads.ts";
import { Ticks } from "./ticks.ts";

export interface SharedParts {
  readonly heads: RememberedHeads;
  readonly ticks: Ticks;
  readonly buffers: ReadBuffers;
  readonly writeBuffer: WriteBuffer;
  readonly deferredWrites: DeferredWrites;
}

export function createSharedParts(): SharedParts {
  return {
    heads: new RememberedHeads(),
    ticks: new Ticks(),
    buffers: new ReadBuffers(),
    writeBuffer: new WriteBuffer(),
    deferredWrites: new DeferredWrites(),
  };
}
