// An input: what one connection sends, as parts that can be repeated. So a mutation can turn a short pattern into a
// long one, which is what makes an algorithm slow. Everything with a length (a frame, a chunk, a message, a string) is
// a part of its own, so that the length stays right while its contents are mutated.

export interface TextPart {
  readonly kind: "text";
  /** Each character is one byte. */
  readonly text: string;
  readonly times: number;
}

/** Contents after their length. */
export interface SizedPart {
  readonly kind: "sized";
  readonly as: Sizing;
  /** Precedes the length: the tag of a protobuf field, or the first byte of an HPACK literal. */
  readonly lead: string;
  readonly parts: readonly ContentPart[];
  readonly times: number;
}

export interface FramePart {
  readonly kind: "frame";
  readonly type: number;
  readonly flags: number;
  /** `next` opens a stream for each repetition, `same` is the one that was opened last. */
  readonly stream: "next" | "same" | number;
  readonly parts: readonly ContentPart[];
  readonly times: number;
}

/** Of a class of inputs, on the wire. */
export const maxInputBytes = 16 * 1024;

export type ContentPart = TextPart | SizedPart;
export type Part = ContentPart | FramePart;

export interface Input {
  readonly parts: readonly Part[];
  /** The input is written in pieces of so many bytes, each a packet of its own; 0: in one. */
  readonly pieceBytes: number;
}

export type Sizing = "chunk" | "grpc" | "hpack" | "protobuf" | "u16" | "u24";

const sizings: Readonly<Record<Sizing, (lead: string, content: string) => string>> = {
  chunk: (lead, content) => `${content.length.toString(16)}${lead}\r\n${content}\r\n`,
  grpc: (lead, content) => lead + bytesOf(content.length, 4) + content,
  hpack: (lead, content) => lead + hpackLength(content.length) + content,
  protobuf: (lead, content) => lead + varint(content.length) + content,
  u16: (lead, content) => lead + bytesOf(content.length, 2) + content,
  u24: (lead, content) => lead + bytesOf(content.length, 3) + content,
};

export const text = (bytes: string, times = 1): TextPart => ({ kind: "text", text: bytes, times });

type Contents = string | readonly ContentPart[];

const contents = (of: Contents): readonly ContentPart[] => (typeof of === "string" ? [text(of)] : of);

export const sized = (as: Sizing, lead: string, of: Contents, times = 1): SizedPart => ({
  kind: "sized",
  as,
  lead,
  parts: contents(of),
  times,
});

/** As in RFC 9113, 6. */
export const frameTypes = {
  data: 0,
  headers: 1,
  priority: 2,
  reset: 3,
  settings: 4,
  ping: 6,
  goAway: 7,
  window: 8,
  continuation: 9,
} as const;

export const frame = (
  type: number,
  flags: number,
  stream: FramePart["stream"],
  of: Contents = "",
  times = 1,
): FramePart => ({ kind: "frame", type, flags, stream, parts: contents(of), times });

export interface Rendered {
  readonly bytes: Buffer;
  /** Streams that were opened. */
  readonly streams: number;
}

/** At most `maxBytes` of it: repetitions that do not fit are left out. */
export function render({ parts }: Pick<Input, "parts">, maxBytes: number): Rendered {
  const counter = { streams: 0 };
  const bytes = renderParts(parts, maxBytes, counter);
  return { bytes: Buffer.from(bytes, "latin1"), streams: counter.streams };
}

const maxFrameBytes = 16_384;
const frameHeadBytes = 9;

function renderParts(parts: readonly Part[], maxBytes: number, counter: { streams: number }): string {
  let bytes = "";
  for (const part of parts) {
    const left = maxBytes - bytes.length;
    const once = renderOnce(part, left, counter);
    const size = once.length + (part.kind === "frame" ? frameHeadBytes : 0);
    const times = size === 0 ? 0 : Math.min(part.times, Math.floor(left / size));
    if (part.kind !== "frame") bytes += once.repeat(times);
    else {
      for (let i = 0; i < times; i += 1) {
        if (part.stream === "next") counter.streams += 1;
        bytes += frameHead(part, once.length, counter.streams) + once;
      }
    }
  }
  return bytes;
}

function renderOnce(part: Part, left: number, counter: { streams: number }): string {
  if (part.kind === "text") return part.text;
  // Room for the length, or for the head of the frame.
  const room = Math.max(0, Math.min(left, maxFrameBytes) - frameHeadBytes - 10);
  const content = renderParts(part.parts, room, counter);
  return part.kind === "frame" ? content : sizings[part.as](part.lead, content);
}

function frameHead({ type, flags, stream }: FramePart, length: number, streams: number): string {
  const id = typeof stream === "number" ? stream : Math.max(1, 2 * streams - 1);
  return bytesOf(length, 3) + bytesOf(type, 1) + bytesOf(flags, 1) + bytesOf(id, 4);
}

/** In network order. */
export function bytesOf(value: number, count: number): string {
  let bytes = "";
  for (let shift = 8 * (count - 1); shift >= 0; shift -= 8) bytes += String.fromCharCode((value >>> shift) & 255);
  return bytes;
}

function varint(value: number): string {
  let bytes = "";
  let rest = value;
  for (; rest >= 128; rest = Math.floor(rest / 128)) bytes += String.fromCharCode((rest % 128) + 128);
  return bytes + String.fromCharCode(rest);
}

/** RFC 7541, 5.1, with a prefix of seven bits, without Huffman coding. */
function hpackLength(length: number): string {
  return length < 127 ? String.fromCharCode(length) : `\x7f${varint(length - 127)}`;
}
