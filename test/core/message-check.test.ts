import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type LocalReply, localReplies } from "../../src/core/local-reply.ts";
import { type MessageHead, readMessage } from "../../src/core/message-check.ts";
import { cpuMsOf } from "../support/cpu-time.ts";

const read = (fields: readonly string[], more: Partial<MessageHead> = {}) =>
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
    [
      "the gateway's own names",
      ["X-Forwarded-For", "x", "X-Real-IP", "x", "X-Request-Id", "x", "Forwarded", "x"],
      0,
      false,
    ],
    [
      "a dot in a name of nobody's",
      ["X.Custom", "x", "Content.Type", "x", "X-Real.IPs", "x", "aX.Real.IP", "x"],
      0,
      false,
    ],
    ["a dot behind a name", ["Host.", "x", "Content-Length.", "x", "X-Real-IP.", "x"], 0, false],
    [
      "underscores",
      ["SFDC_STACK_DEPTH", "1", "api_key", "k", "_", "", "__proto__", "x", "Content_Type", "x"],
      0,
      false,
    ],
  ])("%s", (_, fields, contentLength, expectsContinue) => {
    expect(read([...host, ...fields])).toEqual({
      requestId: fields.includes("X-Request-Id") ? "x" : null,
      unparsable: null,
      problem: null,
      host: "api.example",
      contentLength,
      expectsContinue,
      asksToUpgrade: false,
      isLastHop: false,
      logsInConnection: false,
    });
  });

  test("only an OPTIONS may have come as far as it may", () => {
    const fields = [...host, "Max-Forwards", "0"];
    expect(read(fields, { method: "OPTIONS" }).isLastHop).toBe(true);
    expect(read(fields).isLastHop).toBe(false);
    expect(read([...host, "Max-Forwards", "10"], { method: "OPTIONS" }).isLastHop).toBe(false);
  });

  test("HTTP/1.0 without a Host (RFC 9112, 3.2)", () => {
    expect(read([], { httpVersion: "1.0" })).toMatchObject({ problem: null, host: "" });
  });

  test("HTTP/1.0 with a Host and a length, whose expectation is ignored (RFC 9110, 10.1.1)", () => {
    const fields = [...host, "Content-Length", "3", "Expect", "100-continue"];
    expect(read(fields, { httpVersion: "1.0" })).toMatchObject({
      problem: null,
      contentLength: 3,
      expectsContinue: false,
      asksToUpgrade: false,
    });
  });
});

describe("what is refused", () => {
  test.each<[claim: string, fields: string[], problem: LocalReply]>([
    ["no Host", [], localReplies.badHost],
    ["an empty Host", ["Host", ""], localReplies.badHost],
    ["two Hosts", [...host, ...host], localReplies.badHost],
    ["two Hosts in different cases", [...host, "hOST", "api.example"], localReplies.badHost],
    ["a list of hosts", ["Host", "a, b"], localReplies.badHost],
    ["a Host with a user", ["Host", "user@api.example"], localReplies.badHost],
    ["a Host with a path", ["Host", "api.example/v2"], localReplies.badHost],
    ["a Host with white space", ["Host", "api example"], localReplies.badHost],
    ["a Host that is not ASCII", ["Host", "\u00e4pi"], localReplies.badHost],
    ["length and chunks", [...host, "Content-Length", "3", "Transfer-Encoding", "chunked"], localReplies.malformed],
    ["chunks and length", [...host, "Transfer-Encoding", "chunked", "Content-Length", "0"], localReplies.malformed],
    [
      "length and another encoding",
      [...host, "Transfer-Encoding", "gzip", "Content-Length", "3"],
      localReplies.malformed,
    ],
    ["two lengths", [...host, "Content-Length", "3", "Content-Length", "4"], localReplies.malformed],
    ["one length twice", [...host, "Content-Length", "3", "content-length", "3"], localReplies.malformed],
    ["a list of lengths", [...host, "Content-Length", "3, 3"], localReplies.malformed],
    ["a length with a sign", [...host, "Content-Length", "+3"], localReplies.malformed],
    ["a negative length", [...host, "Content-Length", "-1"], localReplies.malformed],
    ["a fraction", [...host, "Content-Length", "3.0"], localReplies.malformed],
    ["an exponent", [...host, "Content-Length", "1e3"], localReplies.malformed],
    ["a hexadecimal length", [...host, "Content-Length", "0x3"], localReplies.malformed],
    ["an empty length", [...host, "Content-Length", ""], localReplies.malformed],
    ["a length with a blank", [...host, "Content-Length", "3 "], localReplies.malformed],
    ["a length with an underscore", [...host, "Content-Length", "1_0"], localReplies.malformed],
    ["a length beyond counting", [...host, "Content-Length", "9".repeat(16)], localReplies.malformed],
    [
      "two encodings",
      [...host, "Transfer-Encoding", "chunked", "TE", "x", "Transfer-Encoding", "chunked"],
      localReplies.unsupportedEncoding,
    ],
    ["a list of encodings", [...host, "Transfer-Encoding", "gzip, chunked"], localReplies.unsupportedEncoding],
    ["chunked, then identity", [...host, "Transfer-Encoding", "chunked, identity"], localReplies.unsupportedEncoding],
    ["chunked twice in a list", [...host, "Transfer-Encoding", "chunked, chunked"], localReplies.unsupportedEncoding],
    ["xchunked", [...host, "Transfer-Encoding", "xchunked"], localReplies.unsupportedEncoding],
    ["chunked with a parameter", [...host, "Transfer-Encoding", "chunked;q=1"], localReplies.unsupportedEncoding],
    ["chunked in quotes", [...host, "Transfer-Encoding", '"chunked"'], localReplies.unsupportedEncoding],
    ["chunked with a tab", [...host, "Transfer-Encoding", "\tchunked"], localReplies.unsupportedEncoding],
    ["identity", [...host, "Transfer-Encoding", "identity"], localReplies.unsupportedEncoding],
    ["an empty encoding", [...host, "Transfer-Encoding", ""], localReplies.unsupportedEncoding],
    ["another expectation", [...host, "Expect", "200-ok"], localReplies.unsupportedExpect],
    ["an empty expectation", [...host, "Expect", ""], localReplies.unsupportedExpect],
    ["a list of expectations", [...host, "Expect", "100-continue, x"], localReplies.unsupportedExpect],
    ["a second expectation", [...host, "Expect", "100-continue", "Expect", "x"], localReplies.unsupportedExpect],
  ])("%s", (_, fields, problem) => {
    expect(read(fields).problem).toMatchObject(problem);
  });

  test.each([
    ...[
      "X_Forwarded_For",
      "X.Forwarded.For",
      "X.FORWARDED-PROTO",
      "x-forwarded+host",
      "X~Forwarded-Any",
      "X.Forwarded",
    ],
    ...["X.Real.IP", "X-Real.IP", "X.Original.URL", "X-Rewrite.URL", "X.HTTP-Method-Override", "X-HTTP.Method"],
    ...["X+Method+Override", "X-Request.Id", "X!Request!Id", "Content.Length", "Content+Length", "Transfer.Encoding"],
    ...["Client_IP", "True.Client.IP", "Client_Cert"],
  ])("the name %s, and the reply says so", (name) => {
    const other = name.toLowerCase().replaceAll(/[^a-z]/g, "-");
    const { status, reason, message } = localReplies.badFieldName;
    const errMsg = `The header name ${name} can be read as ${other}.`;
    expect(read([...host, name, "secret"]).problem).toMatchObject({
      status,
      reason,
      message,
      errMsg,
      detail: { field: name },
    });
    expect(read([...host, "api_key", "x", name, "x", "Client_IP", "x"]).problem).toMatchObject({
      detail: { field: name },
    });
  });

  test("a name with other characters than those of a name is not repeated, nor all of a long one", () => {
    const odd = read([...host, `X\u00e4Forwarded"${"y".repeat(100)}`, "x"]).problem;
    expect(odd).toMatchObject({ detail: { field: "X" } });
    expect(JSON.parse(odd?.body ?? "")).toMatchObject({ message: "Bad Request" });
    expect(odd?.body).toMatch(/^[\x20-\x7e]*$/);
  });

  test("an encoding in HTTP/1.0", () => {
    const fields = [...host, "Transfer-Encoding", "chunked"];
    expect(read(fields, { httpVersion: "1.0" }).problem).toMatchObject(localReplies.malformed);
  });

  test.each(["TRACE", "CONNECT"])("the method %s", (method) => {
    expect(read(host, { method }).problem).toBe(localReplies.unsupportedMethod);
  });

  test.each([[["Host", ""]], [[...host, ...host]], [["Host", "a b"]]])("%j in HTTP/1.0", (fields) => {
    expect(read(fields, { httpVersion: "1.0" }).problem).toBe(localReplies.badHost);
  });
});

test("which name is bad is told, and which rule a request breaks", () => {
  expect(read([...host, "X-A", "b_c", "X_Real_IP", "x"]).problem?.detail).toEqual({
    ...{ rule: "a name that can be read as x-real-ip", line: null, field: "X_Real_IP" },
  });
  expect(read([...host, "Content-Length", "s3cret"]).problem?.detail).toMatchObject({ field: "Content-Length" });
});

test("the last of 5,000 fields is looked at like the first", () => {
  const many = Array.from({ length: 5000 }, (_, i) => [`X-${i}`, "y"]).flat();
  expect(read([...host, ...many]).problem).toBeNull();
  expect(read([...host, ...many, "X_Real_IP", "y"]).problem).toMatchObject({ detail: { field: "X_Real_IP" } });
});

test.each(["Host", "Content-Length", "Transfer-Encoding", "Expect", "Max-Forwards"])(
  "many fields of the name %s are read in linear time",
  (name) => {
    const fields = Array.from({ length: 40_000 }, (_, i) => (i % 2 === 0 ? name : "1"));
    // The least of several, because the compiler and the collection of garbage add to single ones.
    const leastMs = Math.min(...Array.from({ length: 5 }, () => cpuMsOf(() => read(fields))));
    expect(leastMs).toBeLessThan(40);
  },
);

test("no name of letters, digits and hyphens is taken for another", () => {
  const words = fc.constantFrom(
    "x",
    "X",
    "forwarded",
    "Real",
    "ip",
    "request",
    "ID",
    "content",
    "type",
    "transfer",
    "1",
  );
  fc.assert(
    fc.property(fc.array(words, { minLength: 1, maxLength: 5 }), (parts) => {
      expect(read([...host, parts.join("-"), "x"]).problem).toBeNull();
    }),
  );
});
