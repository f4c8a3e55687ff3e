// The parser by itself: however the bytes are cut, the same response comes of them. What is and is not a response stands
// in the response corpus.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { RememberedHeads, ResponseParser } from "../../src/http1/response-parser.ts";
import { responseCases } from "../conformance/responses/corpus.ts";
import { runs } from "../support/runs.ts";

interface Reading {
  readonly heads: unknown[];
  body: string;
  outcome: "over" | "open" | "ERR_MALFORMED_RESPONSE" | "ERR_RESPONSE_HEAD_TOO_LARGE";
  /** Bytes that belong to the response, if it is over. */
  count: number;
  mayContinue: boolean;
}

function read(pieces: readonly string[], method = "GET", closes = false): Reading {
  const reading: Reading = { heads: [], body: "", outcome: "open", count: 0, mayContinue: false };
  const parser = new ResponseParser(
    {
      onInterim: (head) => void reading.heads.push(head),
      onHead: (head) => void reading.heads.push(head),
      onBody: (bytes, from, to) => {
        reading.body += bytes.toString("latin1", from, to);
        return false;
      },
    },
    new RememberedHeads(),
  );
  parser.begin(method);
  try {
    for (const piece of pieces) {
      if (parser.isOver) break;
      reading.count += parser.execute(Buffer.from(piece, "latin1"));
    }
    if (parser.isOver || (closes && parser.end())) reading.outcome = "over";
    reading.mayContinue = parser.mayContinue;
    return reading;
  } catch (error) {
    const code = (error as { code?: Reading["outcome"] }).code;
    if (code === undefined) throw error;
    return { ...reading, outcome: code, count: 0 };
  }
}

test("every response of the corpus is the same in however many pieces", () => {
  const anyCase = fc.constantFrom(...responseCases.filter(({ bytes }) => bytes.length > 1));
  const cuts = fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { maxLength: 12 });
  fc.assert(
    fc.property(anyCase, cuts, ({ bytes, method, closes }, shares) => {
      const at = shares.map((share) => Math.round(share * bytes.length)).sort((a, b) => a - b);
      const pieces = [0, ...at].map((begin, i) => bytes.slice(begin, at[i] ?? bytes.length)).filter(Boolean);
      const whole = read([bytes], method, closes);
      const cut = read(pieces, method, closes);
      expect(cut).toEqual(whole);
    }),
    runs(5_000),
  );
});

test("any bytes in chunks come out as they went in, whatever the sizes", () => {
  const chunks = fc.array(fc.string({ unit: "binary-ascii", minLength: 1, maxLength: 300 }), { maxLength: 20 });
  fc.assert(
    fc.property(chunks, fc.boolean(), (bodies, isUpper) => {
      const size = (body: string): string => {
        const digits = body.length.toString(16);
        return isUpper ? digits.toUpperCase() : `00${digits}`;
      };
      const text = bodies.map((body) => `${size(body)}\r\n${body}\r\n`).join("");
      const bytes = `HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n${text}0\r\n\r\n`;
      expect(read([`${bytes}spare`])).toMatchObject({ body: bodies.join(""), outcome: "over", count: bytes.length });
    }),
    runs(500),
  );
});

describe("heads are bounded", () => {
  const head = (length: number): string => `HTTP/1.1 204 No Content\r\nX: ${"x".repeat(length - 28)}`;

  test.each([
    ["in one piece", (text: string) => [text]],
    ["in pieces of 1,000", (text: string) => text.match(/[\s\S]{1,1000}/g) ?? []],
    ["a byte at a time", (text: string) => [...text]],
  ])("at 16 KiB, %s", (_, cut) => {
    expect(head(16_384)).toHaveLength(16_384);
    expect(read(cut(`${head(16_384)}\r\n\r\n`)).outcome).toBe("over");
    expect(read(cut(`${head(16_385)}\r\n\r\n`)).outcome).toBe("ERR_RESPONSE_HEAD_TOO_LARGE");
  });

  test("trailers and extensions too", () => {
    const start = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    const trailer = `X: ${"x".repeat(1_000)}\r\n`;
    expect(read([`${start}0\r\n${trailer.repeat(10)}\r\n`]).outcome).toBe("over");
    expect(read([`${start}0\r\n${trailer.repeat(20)}\r\n`]).outcome).toBe("ERR_MALFORMED_RESPONSE");
    expect(read([`${start}0;${"x".repeat(20_000)}`]).outcome).toBe("ERR_MALFORMED_RESPONSE");
  });
});

test.each([
  ["0", "over"],
  ["000", "over"],
  ["00 ;x=0", "over"],
  ["0001", "open"],
  [`${"0".repeat(16_000)}1`, "open"],
  ["00fffffffffffff", "open"],
  ["010000000000000", "ERR_MALFORMED_RESPONSE"],
  [`${"0".repeat(16_000)}x`, "ERR_MALFORMED_RESPONSE"],
  ["", "ERR_MALFORMED_RESPONSE"],
])("the size of a chunk %.20j", (size, outcome) => {
  const end = outcome === "over" ? "\r\n" : "";
  expect(read([`HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n${size}\r\n${end}`]).outcome).toBe(outcome);
});

test.each(["H", "HTTP/1.", "HTTP/1.1 200 OK\r", "HTTP/1.1 200 OK\n", "HTTP/1.1 200 OK\r\nA: b\r\n"])(
  "%j may still become a head",
  (bytes) => {
    expect(read([bytes]).outcome).toBe("open");
  },
);

test.each(["h", "\r\n", "\n", "HTTP/2", "HTTP/1.1 200 OK\rA", "HTTP/1.1 200 OK\r\r\n", "\x16\x03\x01"])(
  "%j is told at once, without waiting for more",
  (bytes) => {
    expect(read([bytes]).outcome).toBe("ERR_MALFORMED_RESPONSE");
  },
);

const finals = responseCases.filter(
  ({ expected, bytes }) => expected.kind === "passed" && /^HTTP\/1\.\d [2-5]/.test(bytes),
);

test("a head with any of its line ends a single LF, cut at each byte, reads as with CRLF, and is the last", () => {
  fc.assert(
    fc.property(fc.constantFrom(...finals), fc.infiniteStream(fc.boolean()), ({ bytes, method, closes }, areLf) => {
      const [, written = "", rest = ""] = /^(.*?\n\r?\n)(.*)$/s.exec(bytes) ?? [];
      const head = written.replace(/\r?\n/g, "\r\n");
      const given = head.replace(/\r\n/g, () => (areLf.next().value ? "\n" : "\r\n"));
      const usual = read([head + rest], method, closes);
      const own = read([given + rest], method, closes);
      const facts = (reading: Reading) => ({
        ...reading,
        heads: reading.heads.map((each) => ({ ...(each as object), closes: null, positions: null })),
        count: null,
        mayContinue: null,
      });
      expect(facts(own)).toEqual(facts(usual));
      expect(own.mayContinue).toBe(given === head && usual.mayContinue);
      if (usual.outcome === "over") expect(own.count).toBe(usual.count - head.length + given.length);
      for (let at = 1; at < Math.min(given.length + rest.length, 300); at += 1) {
        const all = given + rest;
        expect(read([all.slice(0, at), all.slice(at)], method, closes)).toEqual(own);
      }
    }),
    runs(300),
  );
});
