// The bytes of attacks over HTTP/2: the preface, frames and header blocks.
import { code, frame, literals } from "../../../test/support/http2-frames.ts";

export { code, frame, literals };

export const types = {
  data: 0,
  headers: 1,
  priority: 2,
  reset: 3,
  settings: 4,
  pushPromise: 5,
  ping: 6,
  goaway: 7,
  windowUpdate: 8,
  continuation: 9,
  altSvc: 10,
  priorityUpdate: 16,
  unknown: 0xee,
} as const;

export const flags = { none: 0, ack: 1, endStream: 1, endHeaders: 4, padded: 8, priority: 32 } as const;

/** The client's first bytes. They acknowledge the server's SETTINGS before these arrive. */
export function preface(...settings: (readonly [id: number, value: number])[]): Buffer {
  const start = Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "latin1");
  return Buffer.concat([start, settingsFrame(...settings), frame(types.settings, flags.ack, 0)]);
}

export const initialWindow = 4;

export function settingsFrame(...settings: (readonly [id: number, value: number])[]): Buffer {
  const pairs = settings.map(([id, value]) => Buffer.concat([Buffer.from([0, id]), code(value)]));
  return frame(types.settings, flags.none, 0, Buffer.concat(pairs));
}

/** The i-th request of a connection. */
export const streamOf = (i: number): number => 2 * i + 1;

/** A header block that adds nothing to the dynamic table. */
export function block(method: string, path: string, ...more: (readonly [string, string])[]): Buffer {
  return literals([
    [":method", method],
    [":scheme", "https"],
    [":authority", "api.test"],
    [":path", path],
    ["authorization", "Bearer attacker"],
    ...more,
  ]);
}

/** HEADERS and the CONTINUATION frames that the block needs. */
export function headers(stream: number, fields: Buffer, flag: number = flags.endStream): Buffer {
  const pieces: Buffer[] = [];
  for (let at = 0; at < fields.length || at === 0; at += 16_384) pieces.push(fields.subarray(at, at + 16_384));
  return Buffer.concat(
    pieces.map((piece, i) => {
      const end = i === pieces.length - 1 ? flags.endHeaders : 0;
      return frame(i === 0 ? types.headers : types.continuation, (i === 0 ? flag : 0) | end, stream, piece);
    }),
  );
}

/** Returns the same frames on another stream, which is cheaper than building them again. */
export function withStream(frames: Buffer, stream: number): Buffer {
  const copy = Buffer.from(frames);
  for (let at = 0; at < copy.length; at += 9 + copy.readUIntBE(at, 3)) copy.writeUInt32BE(stream, at + 5);
  return copy;
}

export const windowUpdate = (stream: number, increment: number): Buffer =>
  frame(types.windowUpdate, flags.none, stream, code(increment));

/** An entry for the dynamic table: literal with incremental indexing, new name (RFC 7541, 6.2.1). */
export function tableEntry(name: string, value: string): Buffer {
  const literal = literals([[name, value]]);
  literal[0] = 0x40;
  return literal;
}

/** A reference to the newest entry of the dynamic table. */
export const newestEntry = 0xbe;

/** Whether a GOAWAY came: the attacker then opens a new connection. Received pieces usually begin with a frame. */
export function hasGoaway(received: Buffer): boolean {
  for (let at = 0; at + 9 <= received.length; at += 9 + received.readUIntBE(at, 3)) {
    if (received.readUInt8(at + 3) === types.goaway) return true;
  }
  return false;
}
