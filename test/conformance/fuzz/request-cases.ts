// A case is a seed: one client connection with a mutated request, perhaps others before and behind it, in the pieces it
// is written in. Behind them stands a request that ends the connection where the framing has survived.
import { mutateBytes, mutateLineEnd } from "./byte-mutations.ts";
import { chunksOf } from "./chunk-mutations.ts";
import { Random } from "./random.ts";
import {
  connections,
  framingLines,
  hosts,
  methods,
  otherLines,
  type RequestParts,
  serialize,
  targets,
  token,
  validRequest,
  versions,
} from "./request-parts.ts";

export interface RequestCase {
  readonly seed: number;
  /** In each target, followed by the place of the request on the connection. */
  readonly marker: string;
  readonly bytes: string;
  readonly pieces: readonly string[];
  /** The client ends its side behind the bytes. */
  readonly ends: boolean;
}

export function requestCase(seed: number): RequestCase {
  const random = new Random(seed);
  const marker = random.marker();
  const before = random.oneIn(10) ? serialize(validRequest(random, `${marker}-0`)) : "";
  let bytes = before + mutatedRequest(random, `${marker}-1`);
  if (random.oneIn(10)) bytes += serialize(validRequest(random, `${marker}-2`));
  // Cut off, and nothing behind it: the client leaves, or leaves the rest to the timeouts.
  const isCut = random.oneIn(25);
  if (isCut) bytes = bytes.slice(0, random.int(bytes.length));
  const last = `GET /v2/last?m=${marker}-3 HTTP/1.1\r\nHost: a\r\n${token}\r\nConnection: close\r\n\r\n`;
  // Alone in its packet, a request may be read by another parser than one with something behind it.
  const isAlone = !isCut && random.oneIn(2);
  const mutated = bytes;
  if (!isCut) bytes += last;
  const inPieces = random.oneIn(5) ? random.pieces(bytes, 1 + random.int(4)) : [bytes];
  const pieces = isAlone ? [mutated, last] : inPieces;
  return { seed, marker, bytes, pieces, ends: isCut && !random.oneIn(4) };
}

function mutatedRequest(random: Random, mark: string): string {
  const request = validRequest(random, mark);
  const times = random.oneIn(3) ? 2 + random.int(2) : 1;
  let bytes: string | null = null;
  for (let i = 0; i < times; i += 1) {
    if (bytes !== null) bytes = mutateBytes(random, bytes);
    else if (random.oneIn(4)) bytes = mutateBytes(random, serialize(request));
    else if (random.oneIn(12)) bytes = mutateLineEnd(random, serialize(request));
    else mutateParts(random, request, mark);
  }
  return bytes ?? serialize(request);
}

function mutateParts(random: Random, request: RequestParts, mark: string): void {
  const { lines } = request;
  const at = random.int(lines.length + 1);
  const put = (line: string): void => void lines.splice(at, 0, line);
  switch (random.int(13)) {
    case 0:
    case 1:
      if (random.oneIn(2)) request.lines = lines.filter((line) => !isFraming(line));
      request.lines.splice(random.int(request.lines.length + 1), 0, random.pick(framingLines(request.body.length)));
      break;
    case 2:
    case 3:
      request.lines = [...lines.filter((line) => !isFraming(line)), "Transfer-Encoding: chunked"];
      request.body = chunksOf(random, request.body || "some text");
      break;
    case 4:
      request.target = random.pick(targets(`?m=${mark}`));
      break;
    case 5:
      request.method = random.pick(methods);
      break;
    case 6:
      request.version = random.pick(versions);
      break;
    case 7:
      lines.splice(lines.indexOf("Host: a"), 1, random.pick(hosts));
      break;
    case 8:
      put(`Connection: ${random.pick(connections)}`);
      break;
    case 9:
      put(random.pick(otherLines));
      break;
    case 10:
      put(lines[random.int(lines.length)] ?? "X-A: 1");
      break;
    case 11:
      lines.splice(random.int(lines.length), 1);
      break;
    default:
      request.body = random.oneIn(2)
        ? request.body.slice(0, -1 - random.int(3))
        : `${request.body}${"xyz".slice(random.int(3))}`;
  }
}

function isFraming(line: string): boolean {
  return /^(?:content-length|transfer-encoding)/i.test(line);
}
