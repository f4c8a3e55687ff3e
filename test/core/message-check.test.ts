import { describe, expect, test } from "vitest";
import { type MessageFacts, readMessage } from "../../src/core/message-check.ts";
import { type Problem, problems } from "../../src/core/problem.ts";

const read = (fields: readonly string[], more: Partial<MessageFacts> = {}) =>
  readMessage({ method: "GET", rawHeaders: fields, target: "/v2/x", httpVersion: "1.1", ...more });

const host = ["Host", "api.example"];

describe("what passes", () => {
  test.each([
    ["no body", [], 0, false],
    ["a length", ["Content-Length", "12"], 12, false],
    ["a length of nothing", ["Content-Length", "0"], 0, false],
    ["a length with zeros before it", ["content-length", "0012"], 12, false],
    ["chunks", ["Transfer-Encoding", "chunked"], null, false],
    ["chunks in any case", ["TRANSFER-ENCODING", "ChunkeD"], null, false],
    ["waiting for 100", ["Expect", "100-continue", "Content-Length", "1"], 1, true],
    ["waiting for 100 in any case", ["eXPECT", "100-Continue", "Transfer-Encoding", "chunked"], null, true],
    ["names that only resemble", ["Content-Length2", "x", "X-Transfer-Encoding", "gzip", "Expect-CT", "x"], 0, false],
    ["odd names", ["0", "x", "constructor", "x", "~", "x"], 0, false],
  ])("%s", (_, fields, contentLength, expectsContinue) => {
    expect(read([...host, ...fields])).toEqual({
      problem: null,
      flaw: null,
      host: "api.example",
      contentLength,
      expectsContinue,
      asksToLeave: false,
      endsHere: false,
    });
  });

  test("only an OPTIONS may have come as far as it may", () => {
    const fields = [...host, "Max-Forwards", "0"];
    expect(read(fields, { method: "OPTIONS" }).endsHere).toBe(true);
    expect(read(fields).endsHere).toBe(false);
    expect(read([...host, "Max-Forwards", "10"], { method: "OPTIONS" }).endsHere).toBe(false);
  });

  test("a target of 8,192 bytes", () => {
    expect(read(host, { target: `/${"x".repeat(8191)}` }).problem).toBeNull();
  });

  test("HTTP/1.0 with a Host and a length, whose expectation is ignored (RFC 9110, 10.1.1)", () => {
    const fields = [...host, "Content-Length", "3", "Expect", "100-continue"];
    expect(read(fields, { httpVersion: "1.0" })).toMatchObject({
      problem: null,
      contentLength: 3,
      expectsContinue: false,
      asksToLeave: false,
    });
  });
});

describe("what is refused", () => {
  test.each<[claim: string, fields: string[], problem: Problem]>([
    ["no Host", [], problems.badHost],
    ["an empty Host", ["Host", ""], problems.badHost],
    ["two Hosts", [...host, ...host], problems.badHost],
    ["two Hosts in different cases", [...host, "hOST", "api.example"], problems.badHost],
    ["a list of hosts", ["Host", "a, b"], problems.badHost],
    ["a Host with a user", ["Host", "user@api.example"], problems.badHost],
    ["a Host with a path", ["Host", "api.example/v2"], problems.badHost],
    ["a Host with white space", ["Host", "api example"], problems.badHost],
    ["a Host that is not ASCII", ["Host", "\u00e4pi"], problems.badHost],
    ["an underscore", [...host, "X_Forwarded_For", "6.6.6.6"], problems.badFieldName],
    ["an underscore alone", [...host, "_", ""], problems.badFieldName],
    ["__proto__", [...host, "__proto__", "x"], problems.badFieldName],
    ["length and chunks", [...host, "Content-Length", "3", "Transfer-Encoding", "chunked"], problems.malformed],
    ["chunks and length", [...host, "Transfer-Encoding", "chunked", "Content-Length", "0"], problems.malformed],
    ["length and another encoding", [...host, "Transfer-Encoding", "gzip", "Content-Length", "3"], problems.malformed],
    ["two lengths", [...host, "Content-Length", "3", "Content-Length", "4"], problems.malformed],
    ["one length twice", [...host, "Content-Length", "3", "content-length", "3"], problems.malformed],
    ["a list of lengths", [...host, "Content-Length", "3, 3"], problems.malformed],
    ["a length with a sign", [...host, "Content-Length", "+3"], problems.malformed],
    ["a negative length", [...host, "Content-Length", "-1"], problems.malformed],
    ["a fraction", [...host, "Content-Length", "3.0"], problems.malformed],
    ["an exponent", [...host, "Content-Length", "1e3"], problems.malformed],
    ["a hexadecimal length", [...host, "Content-Length", "0x3"], problems.malformed],
    ["an empty length", [...host, "Content-Length", ""], problems.malformed],
    ["a length with a blank", [...host, "Content-Length", "3 "], problems.malformed],
    ["a length with an underscore", [...host, "Content-Length", "1_0"], problems.malformed],
    ["a length beyond counting", [...host, "Content-Length", "9".repeat(16)], problems.malformed],
    [
      "two encodings",
      [...host, "Transfer-Encoding", "chunked", "TE", "x", "Transfer-Encoding", "chunked"],
      problems.unsupportedEncoding,
    ],
    ["a list of encodings", [...host, "Transfer-Encoding", "gzip, chunked"], problems.unsupportedEncoding],
    ["chunked, then identity", [...host, "Transfer-Encoding", "chunked, identity"], problems.unsupportedEncoding],
    ["chunked twice in a list", [...host, "Transfer-Encoding", "chunked, chunked"], problems.unsupportedEncoding],
    ["xchunked", [...host, "Transfer-Encoding", "xchunked"], problems.unsupportedEncoding],
    ["chunked with a parameter", [...host, "Transfer-Encoding", "chunked;q=1"], problems.unsupportedEncoding],
    ["chunked in quotes", [...host, "Transfer-Encoding", '"chunked"'], problems.unsupportedEncoding],
    ["chunked with a tab", [...host, "Transfer-Encoding", "\tchunked"], problems.unsupportedEncoding],
    ["identity", [...host, "Transfer-Encoding", "identity"], problems.unsupportedEncoding],
    ["an empty encoding", [...host, "Transfer-Encoding", ""], problems.unsupportedEncoding],
    ["another expectation", [...host, "Expect", "200-ok"], problems.unsupportedExpect],
    ["an empty expectation", [...host, "Expect", ""], problems.unsupportedExpect],
    ["a list of expectations", [...host, "Expect", "100-continue, x"], problems.unsupportedExpect],
    ["a second expectation", [...host, "Expect", "100-continue", "Expect", "x"], problems.unsupportedExpect],
  ])("%s", (_, fields, problem) => {
    expect(read(fields).problem).toBe(problem);
  });

  test("an encoding in HTTP/1.0", () => {
    const fields = [...host, "Transfer-Encoding", "chunked"];
    expect(read(fields, { httpVersion: "1.0" }).problem).toBe(problems.malformed);
  });

  test.each(["TRACE", "CONNECT"])("the method %s", (method) => {
    expect(read(host, { method }).problem).toBe(problems.unsupportedMethod);
  });

  test("no Host in HTTP/1.0 either", () => {
    expect(read([], { httpVersion: "1.0" }).problem).toBe(problems.badHost);
  });

  test("a target of 8,193 bytes, whatever else is wrong", () => {
    expect(read([], { target: `/${"x".repeat(8192)}` }).problem).toBe(problems.targetTooLong);
  });
});

test("the last of 5,000 fields is looked at like the first", () => {
  const many = Array.from({ length: 5000 }, (_, i) => [`X-${i}`, "y"]).flat();
  expect(read([...host, ...many]).problem).toBeNull();
  expect(read([...host, ...many, "X_1", "y"]).problem).toBe(problems.badFieldName);
});
