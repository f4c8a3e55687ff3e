// A head that is remembered reads exactly as one that is parsed: every pair of heads in which one is the other with some
// bytes changed, and those heads that two readers might read differently.
import fc from "fast-check";
import { expect, test } from "vitest";
import { downstreamResponseFields, gatewayResponseFields } from "../../src/core/response-fields.ts";
import type { ResponseHead } from "../../src/http1/response-head.ts";
import { RememberedHeads, ResponseParser } from "../../src/http1/response-parser.ts";
import { responseCases } from "../conformance/responses/corpus.ts";
import { runs } from "../support/runs.ts";

const date = "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n";
const ok = "HTTP/1.1 200 OK\r\n";
/** Two heads of the same length each, which differ in what may be remembered, or nearly. */
const usual = [
  `${ok}Server: a\r\n${date}Content-Type: text/plain\r\nContent-Length: 10\r\nConnection: keep-alive\r\n\r\n`,
  `${ok}${date}ETag: "1"\r\nContent-Length: 007\r\nKeep-Alive: timeout=5\r\nConnection: keep-alive\r\n\r\n`,
  `${ok}content-length: 3\r\nDATE: Mon, 07 Nov 1994 18:49:37 GMT\r\nX-Request-Id: 1\r\n\r\n`,
  `${ok}Date:  Sun, 06 Nov 1994 08:49:37 GMT\r\nContent-Length:\t3 \r\nX:y\r\nY: \r\n\r\n`,
  `${ok}${date}${date}Transfer-Encoding: chunked\r\nTrailer: x\r\n\r\n`,
  `${ok}${date}Connection: close, X-A\r\nX-A: 1\r\nClose: 1\r\nContent-Length: 1\r\n\r\n`,
  `${ok}${date}Connection: content-length, date\r\nContent-Length: 1\r\n\r\n`,
  `HTTP/1.1 429 Too Many\r\nRetry-After: 5\r\n${date}Content-Length: 0\r\nRetry-After: 17\r\n\r\n`,
  `HTTP/1.1 204 No Content\r\n${date}Content-Length: 0\r\n\r\n`,
  `HTTP/1.0 200 OK\r\n${date}Content-Length: 5\r\n\r\n`,
  `HTTP/1.1 304 Not Modified\r\n${date}ETag: "x"\r\n\r\n`,
  `HTTP/1.1 103 Early Hints\r\nLink: </a>\r\nContent-Length: 3\r\n\r\n`,
  `${ok}${date}Content-Length: 3\r\nContent-Length: 3\r\n\r\n`,
];
const heads = [...usual, ...responseCases.map(({ bytes }) => bytes).filter((bytes) => bytes.includes("\r\n\r\n"))];

/** Everything that is read from the bytes, up to the end of the first response. */
function read(bytes: string, method: string, remembered: RememberedHeads): unknown {
  const seen: unknown[] = [];
  const note = (head: ResponseHead): void => void seen.push(head);
  const onBody = (from: Buffer, begin: number, end: number): boolean => {
    seen.push(from.toString("latin1", begin, end));
    return false;
  };
  const parser = new ResponseParser({ onInterim: note, onHead: note, onBody }, remembered);
  parser.begin(method);
  try {
    const count = parser.execute(Buffer.from(bytes, "latin1"));
    return { seen, count, isOver: parser.isOver, mayContinue: parser.mayContinue };
  } catch (error) {
    return { seen, code: (error as { code?: string }).code };
  }
}

/** As text, without where the length stands, which says nothing about the response. */
function textOf(reading: unknown): string {
  return JSON.stringify(reading, (key, value: unknown) => (key === "positions" ? undefined : value));
}

function expectSame(sent: readonly string[], method: string): void {
  const remembered = new RememberedHeads();
  for (const bytes of sent) {
    const known = textOf(read(bytes, method, remembered));
    expect(known).toBe(textOf(read(bytes, method, new RememberedHeads())));
  }
}

const anyHead = fc.constantFrom(...heads);
const interesting = [..."\r\n\t :,;09aZ\0\x7f\x80\xff", "\r\n", "GMT", "close", "Content-Length: 2\r\n", date];
const mutation = fc.record({
  kind: fc.constantFrom("change", "insert", "delete", "digit", "swap"),
  at: fc.double({ min: 0, max: 1, noNaN: true }),
  text: fc.constantFrom(...interesting),
});
type Mutation = typeof mutation extends fc.Arbitrary<infer M> ? M : never;

function mutate(head: string, { kind, at, text }: Mutation): string {
  const index = Math.floor(at * head.length);
  if (kind === "insert") return head.slice(0, index) + text + head.slice(index);
  if (kind === "delete") return head.slice(0, index) + head.slice(index + 1);
  if (kind === "change") return head.slice(0, index) + text + head.slice(index + text.length);
  if (kind === "digit") {
    const digits = [...head.matchAll(/\d/g)];
    const digit = digits[Math.floor(at * digits.length)]?.index ?? 0;
    return `${head.slice(0, digit)}${text.length}${head.slice(digit + 1)}`;
  }
  const lines = head.split("\r\n");
  const line = Math.floor(at * (lines.length - 1));
  [lines[line], lines[line + 1]] = [lines[line + 1] as string, lines[line] as string];
  return lines.join("\r\n");
}

test("a head that is nearly that of the response before reads as it would by itself", () => {
  const sequence = fc.array(fc.array(mutation, { maxLength: 2 }), { minLength: 1, maxLength: 4 });
  fc.assert(
    fc.property(anyHead, sequence, fc.constantFrom("GET", "HEAD"), (head, changes, method) => {
      const sent = changes.map((each) => each.reduce(mutate, head));
      expectSame([head, ...sent, head], method);
    }),
    runs(1_500),
  );
});

test("each byte of a usual head, changed to each interesting one", () => {
  for (const head of usual) {
    for (const byte of ["7", "\r", ":", "x"]) {
      const remembered = new RememberedHeads();
      for (let i = 0; i < head.length; i += 1) {
        const changed = head.slice(0, i) + byte + head.slice(i + 1);
        read(head, "GET", remembered);
        const known = textOf(read(changed, "GET", remembered));
        if (known !== textOf(read(changed, "GET", new RememberedHeads()))) expect.fail(changed);
      }
    }
  }
});

test.each(heads)("the lines for the client of %j are those that a reader of lists selects", (bytes) => {
  const { seen } = read(bytes, "GET", new RememberedHeads()) as { seen: (ResponseHead | string)[] };
  const head = seen.find((each): each is ResponseHead => typeof each !== "string");
  if (head === undefined) return;
  const [, ...lines] = bytes.slice(0, bytes.search(/\r?\n\r?\n/)).split(/\r?\n/);
  const list = lines.flatMap((line) => {
    const colon = line.indexOf(":");
    return [line.slice(0, colon), line.slice(colon + 1).replace(/^[ \t]+|[ \t]+$/g, "")];
  });
  const { lines: passed, hasLength } = downstreamResponseFields(list, head.status);
  expect(head).toMatchObject({ lines: passed, hasLength });
  for (const name of gatewayResponseFields) expect(`\r\n${head.lines}`.toLowerCase()).not.toContain(`\r\n${name}:`);
});

test("the next head is found with another date and another length, and is not parsed", () => {
  const remembered = new RememberedHeads();
  const first = Buffer.from(usual[0] ?? "");
  read(first.toString(), "GET", remembered);
  const bytes = Buffer.from(`spare${(usual[0] ?? "").replace("Sun, 06", "Mon, 07").replace(": 10", ": 42")}`);
  const found = remembered.find(bytes, 5, first.length);
  expect(found).toMatchObject({
    framing: 42,
    lines: "Server: a\r\nContent-Type: text/plain\r\nContent-Length: 42\r\n",
  });
  expect(remembered.find(bytes, 5, first.length)).toBe(found);
});

test.each([
  ["a date that is none", usual[0]?.replace("Nov 1994", "Nov_1994")],
  ["a date of two lines", usual[0]?.replace(", 06 Nov", "\r\nA: 6 N")],
  ["a length that is none", usual[0]?.replace(": 10", ": 1x")],
  ["a head over 2 KiB", undefined],
])("%s is not found", (_, changed) => {
  const remembered = new RememberedHeads();
  const long = `${ok}${date}X: ${"x".repeat(3_000)}\r\nContent-Length: 0\r\n\r\n`;
  const before = changed === undefined ? long : (usual[0] ?? "");
  read(before, "GET", remembered);
  const bytes = Buffer.from(changed ?? long);
  expect(remembered.find(bytes, 0, bytes.length)).toBeNull();
});
