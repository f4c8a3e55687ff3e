// Mutations of an input. Repeating comes first: a cost that grows faster than linearly shows in long inputs.
import type { Random } from "../../../test/conformance/fuzz/random.ts";
import type { ContentPart, FramePart, Input, Part, TextPart } from "./input.ts";
import { text } from "./input.ts";

export interface Dictionary {
  /** Parts of the outermost level. */
  readonly outer: readonly Part[];
  /** Parts of contents: tokens and fields. */
  readonly inner: readonly ContentPart[];
}

const maxTimes = 20_000;
const maxParts = 40;

/** `other`: another input of the same class, for splicing. */
export function mutate(random: Random, input: Input, dictionary: Dictionary, other: Input): Input {
  let { parts, pieceBytes } = input;
  for (let left = random.pick([1, 1, 2, 3, 5]); left > 0; left -= 1) {
    if (random.oneIn(12)) parts = spliced(random, parts, other.parts);
    else if (random.oneIn(40)) pieceBytes = random.pick([0, 0, 1, 2, 16, 100, 1400]);
    else parts = mutateParts(random, parts, dictionary.outer, dictionary);
  }
  return { parts, pieceBytes };
}

function spliced(random: Random, parts: readonly Part[], other: readonly Part[]): readonly Part[] {
  const kept = parts.slice(0, random.int(parts.length + 1));
  return [...kept, ...other.slice(random.int(other.length + 1))].slice(0, maxParts);
}

function mutateParts<P extends Part>(
  random: Random,
  parts: readonly P[],
  tokens: readonly P[],
  dictionary: Dictionary,
): readonly P[] {
  const at = random.int(parts.length);
  const part = parts[at];
  const token = random.any(tokens);
  if (token === undefined) return parts;
  if (part === undefined) return [token];
  const put = (...instead: readonly P[]): readonly P[] =>
    [...parts.slice(0, at), ...instead, ...parts.slice(at + 1)].slice(0, maxParts);
  // Contents are mutated more often than their frames.
  if (part.kind !== "text" && !random.oneIn(3)) {
    return put({ ...part, parts: mutateParts(random, part.parts, dictionary.inner, dictionary) });
  }
  switch (random.int(8)) {
    case 0:
    case 1:
      return put({ ...part, times: otherTimes(random, part.times) });
    case 2:
      return put(token, part);
    case 3:
      return put(part, { ...token, times: otherTimes(random, 1) });
    case 4:
      return parts.length > 1 ? put() : parts;
    case 5:
      return put(part, part);
    case 6: {
      const swapped = parts[random.int(parts.length)] ?? part;
      return put(swapped);
    }
    default:
      return put(...(mutateInside(random, part, dictionary) as readonly P[]));
  }
}

function otherTimes(random: Random, times: number): number {
  const changed = random.pick([times * 2, times * 10, times + 1, times + random.int(100), maxTimes, times / 2, 1]);
  return Math.max(1, Math.min(maxTimes, Math.floor(changed)));
}

function mutateInside(random: Random, part: Part, { inner }: Dictionary): readonly Part[] {
  if (part.kind === "frame") return [mutateFrame(random, part)];
  if (part.kind === "sized") return [{ ...part, lead: mutateText(random, part.lead) }];
  const { text: bytes, times } = part;
  if (bytes.length > 1 && random.oneIn(2)) return repeatedSlice(random, part);
  const token = random.any(inner) ?? part;
  const at = random.int(bytes.length + 1);
  if (token.kind === "text" && random.oneIn(2)) return [text(bytes.slice(0, at) + token.text + bytes.slice(at), times)];
  if (random.oneIn(3))
    return [text(bytes.slice(0, at)), { ...token, times: otherTimes(random, 1) }, text(bytes.slice(at))];
  return [text(mutateText(random, bytes), times)];
}

/** Makes a slice of the text a part of its own, which is repeated. */
function repeatedSlice(random: Random, { text: bytes }: TextPart): readonly Part[] {
  const from = random.int(bytes.length);
  const to = from + 1 + random.int(Math.min(40, bytes.length - from));
  const slice = text(bytes.slice(from, to), otherTimes(random, random.pick([1, 10, 100, 1000])));
  return [text(bytes.slice(0, from)), slice, text(bytes.slice(to))].filter((part) => part.text !== "");
}

function mutateFrame(random: Random, part: FramePart): FramePart {
  switch (random.int(3)) {
    case 0:
      return { ...part, flags: part.flags ^ (1 << random.int(6)) };
    case 1:
      return { ...part, type: random.int(18) };
    default:
      return { ...part, stream: random.pick<FramePart["stream"]>(["next", "same", 0, 1, 2, 0x7fff_ffff]) };
  }
}

function mutateText(random: Random, bytes: string): string {
  if (bytes === "") return String.fromCharCode(random.int(256));
  const at = random.int(bytes.length);
  switch (random.int(4)) {
    case 0:
      return bytes.slice(0, at) + String.fromCharCode(random.int(256)) + bytes.slice(at + 1);
    case 1:
      return (
        bytes.slice(0, at) + String.fromCharCode(bytes.charCodeAt(at) ^ (1 << random.int(8))) + bytes.slice(at + 1)
      );
    case 2:
      return bytes.slice(0, at) + bytes.slice(at + 1 + random.int(4));
    default:
      return bytes.slice(0, at) + bytes.slice(Math.max(0, at - random.int(8)));
  }
}
