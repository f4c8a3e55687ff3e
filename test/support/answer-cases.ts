// The table of answers: one row for each way in which a request can be answered, by the upstream or by the gateway.
import type { Socket } from "node:net";
import type { localReplies } from "../../src/core/local-reply.ts";
import type { Cleanup } from "./cleanup.ts";
import { stallMs } from "./eventually.ts";
import type { Overrides, Serving } from "./gateway.ts";
import { slidingPolicy } from "./policy.ts";
import { freeAddress, occupy, unacceptingAddress } from "./unavailable.ts";

export type OwnAnswer = readonly [message: string, errMsg: string];

export interface AnswerCase {
  readonly status: number;
  readonly name: string;
  /** Written as it is. */
  readonly send: string;
  /** What the upstream does with each request; absent where none may arrive. */
  readonly upstream?: (socket: Socket) => void;
  /** In place of an upstream of the test's own. */
  readonly upstreamUrl?: (cleanup: Cleanup) => Promise<string>;
  readonly overrides?: Overrides;
  /** What has to happen first on other connections. */
  readonly before?: (gateway: Serving, cleanup: Cleanup) => Promise<void>;
  /** The gateway's own answer; absent if it is the upstream's. */
  readonly own?: OwnAnswer;
  /** Why HTTP/2 has no such answer, or a test of its own has it. */
  readonly notOverHttp2?: string;
  /** 100 and 99 if absent. */
  readonly limit?: number;
  readonly remaining?: number;
}

const spoofed =
  "ratelimit-limit: 7\r\nRATELIMIT-LIMIT: 8\r\nRateLimit-Limit: 9\r\nRateLimit-Remaining: 77777\r\nratelimit-Reset: 1\r\n" +
  "X-RateLimit-Limit: 7\r\nx-ratelimit-remaining: 77777\r\nX-Ratelimit-Remaining: 0\r\nX-RATELIMIT-RESET: 1\r\n" +
  'RateLimit: "a";r=1;t=1\r\nratelimit: "b";r=1;t=1\r\nRateLimit-Policy: "a";q=1;w=1\r\n' +
  "Date: Mon, 01 Jan 2001 00:00:00 GMT\r\ndate: Tue, 02 Jan 2001 00:00:00 GMT\r\n";

/** An upstream that sends every field of the gateway's as well, in several spellings and more than once. */
export const answers =
  (statusLine: string, fields = "", body = "") =>
  (socket: Socket): void =>
    void socket.write(`HTTP/1.1 ${statusLine}\r\n${spoofed}${fields}\r\n${body}`, "latin1");

const two = "Content-Length: 2\r\n";
const chunked = "Transfer-Encoding: chunked\r\n";
export const ok = answers("200 OK", two, "ok");
const silent = (): void => {};
const bearer = "Authorization: Bearer secret-token\r\n";

export const get = (target = "/v2/x", fields = "", method = "GET"): string =>
  `${method} ${target} HTTP/1.1\r\nHost: api.test\r\n${bearer}${fields}\r\n`;
const post = (fields: string, body = ""): string => get("/v2/x", fields, "POST") + body;
const anonymous = (method: string, fields = ""): string => `${method} /v2/x HTTP/1.1\r\nHost: a\r\n${fields}\r\n`;

function passed(status: number, name: string, upstream: (socket: Socket) => void, send = get()): AnswerCase {
  return { status, name, upstream, send };
}

export const upstreamAnswers: readonly AnswerCase[] = [
  passed(200, "with a body", ok),
  passed(200, "chunked", answers("200 OK", chunked, "2\r\nok\r\n0\r\n\r\n")),
  passed(200, "HTTP/1.0, ended by the close", (socket) => void socket.end(`HTTP/1.0 200 OK\r\n${spoofed}\r\nok`)),
  passed(200, "to HEAD", answers("200 OK", two), get("/v2/x", "", "HEAD")),
  passed(200, "to OPTIONS", ok, get("/v2/x", "", "OPTIONS")),
  passed(200, "to POST", ok, post(two, "hi")),
  passed(200, "after a 103", answers("103 Early Hints", "", `HTTP/1.1 200 OK\r\n${spoofed}${two}\r\nok`)),
  passed(204, "to DELETE", answers("204 No Content"), get("/v2/x", "", "DELETE")),
  passed(204, "to OPTIONS", answers("204 No Content"), get("/v2/x", "", "OPTIONS")),
  passed(302, "with a Location", answers("302 Found", "Location: /v2/y\r\nContent-Length: 0\r\n")),
  passed(304, "with an ETag", answers("304 Not Modified", 'ETag: "a"\r\n')),
  ...[400, 401, 404, 413, 429, 500, 501, 502, 503, 504, 599].map((status) =>
    passed(status, "of its own", answers(`${status} Its Reason`, two, "ok")),
  ),
];

type Extra = Partial<Omit<AnswerCase, "status" | "name" | "own" | "send">>;

function refused(status: number, name: string, own: OwnAnswer, send: string, extra: Extra = {}): AnswerCase {
  return { status, name, own, send, ...extra };
}

const malformed: OwnAnswer = ["Bad Request", "The request is not well-formed HTTP."];
const ambiguous: OwnAnswer = ["Bad Request", "The path can be read in more than one way."];
const badHost: OwnAnswer = ["Bad Request", "Exactly one valid Host header is required."];
const noToken: OwnAnswer = ["Unauthorized", "Access token does not exist."];
const ownQuota: OwnAnswer = ["Method Not Allowed", "Only GET and HEAD are possible at this path."];
const noRoute: OwnAnswer = ["Not Found", "There is nothing at this path."];
const slow: OwnAnswer = ["Request Timeout", "The request took too long to arrive."];
const bodyTooLarge: OwnAnswer = ["Content Too Large", "The request body is larger than allowed."];
const targetTooLong: OwnAnswer = ["URI Too Long", "The request target is longer than allowed."];
const headTooLarge: OwnAnswer = ["Request Header Fields Too Large", "The request headers are larger than allowed."];
const tooManyFields: OwnAnswer = ["Request Header Fields Too Large", "The request has more headers than allowed."];
const trailersTooLarge: OwnAnswer = [
  "Request Header Fields Too Large",
  "The trailers of the request are larger than allowed.",
];
const badExpect: OwnAnswer = ["Expectation Failed", "Only the expectation 100-continue is supported."];
const badEncoding: OwnAnswer = ["Not Implemented", "Only the transfer encoding chunked is supported."];
const badMethod: OwnAnswer = ["Not Implemented", "The request method is not supported."];
const throttled: OwnAnswer = ["Too Many Requests", "Too many requests, please try again later."];
const failed: OwnAnswer = ["Bad Gateway", "The upstream could not be reached or gave no valid answer."];
const overloaded: OwnAnswer = ["Service Unavailable", "The service is overloaded, please try again later."];
const timedOut: OwnAnswer = ["Gateway Timeout", "The upstream did not answer in time."];

// What never became a request is shown the quota and spends none of it.
const unspent: Extra = { remaining: 100 };
const told: Extra = { ...unspent, overrides: { quota: { path: "/quota" } } };
const bytes = { notOverHttp2: "bytes that are no frame end the connection: http2/rules.ts" };
const framed = { notOverHttp2: "HTTP/2 has frames in place of this framing: conformance/messages/rules.ts" };
const byFrames = { notOverHttp2: "Node's client sends no such request: conformance/messages/rules.ts" };
const small: Extra = { overrides: { maxBodyBytes: 10 } };
const exhausted: Extra = {
  overrides: { policies: [slidingPolicy({ limit: 1, windowMs: 60_000 })] },
  before: async (gateway) => {
    await (await fetch(`${gateway.url}/v2/spends-the-one`)).text();
  },
  limit: 1,
  remaining: 0,
  notOverHttp2: "what has to happen before is done over HTTP/1.1 without TLS: transport/http2.sampled.test.ts",
};
const many = Array.from({ length: 300 }, (_, i) => `X-${i}: ${i}\r\n`).join("");
const kilobytes = (count: number): string => "x".repeat(count * 1024);

/** At `quota.path`. */
export const quotaAnswers: readonly AnswerCase[] = [
  { status: 200, name: "the caller's own quota", send: get("/quota"), ...told },
  { status: 200, name: "the caller's own quota, to HEAD", send: get("/quota", "", "HEAD"), ...told },
  refused(405, "the caller's own quota, to POST", ownQuota, get("/quota", "Content-Length: 0\r\n", "POST"), told),
  refused(401, "the caller's own quota, two tokens", noToken, get("/quota", bearer), { ...told, ...byFrames }),
];

export const refusals: readonly AnswerCase[] = [
  refused(400, "not HTTP", malformed, "nonsense\r\n\r\n", { ...unspent, ...bytes }),
  refused(400, "length and encoding", malformed, post(`${two}${chunked}`), { ...unspent, ...framed }),
  refused(400, "bad chunk", malformed, post(chunked, "2\r\nhi\r\nzz\r\n"), { upstream: silent, ...framed }),
  refused(400, "no Host", badHost, `GET /v2/x HTTP/1.1\r\n${bearer}\r\n`, byFrames),
  refused(400, "two Hosts", badHost, get("/v2/x", "Host: b\r\n"), byFrames),
  refused(400, "ambiguous path", ambiguous, get("/v1/..%2fv2/x")),
  refused(401, "no token", noToken, anonymous("GET")),
  refused(401, "no token, to HEAD", noToken, anonymous("HEAD")),
  refused(401, "no token, a body unread", noToken, anonymous("POST", "Content-Length: 9\r\n")),
  refused(401, "two tokens", noToken, get("/v2/x", bearer), byFrames),
  refused(404, "no route", noRoute, get("/x"), unspent),
  { status: 204, name: "OPTIONS *", send: get("*", "", "OPTIONS"), ...unspent },
  refused(408, "slow head", slow, "GET /v2/x HTTP/1.1\r\nHost:", {
    ...unspent,
    notOverHttp2: "it ends the connection: transport/http2.sampled.test.ts",
    // A connection of which nothing was read in this time is closed without an answer.
    overrides: { timeouts: { headMs: stallMs } },
  }),
  refused(408, "slow body", slow, post("Content-Length: 9\r\n", "slow"), {
    upstream: silent,
    overrides: { timeouts: { bodyMs: 200 } },
  }),
  refused(413, "announced", bodyTooLarge, post("Content-Length: 11\r\n"), small),
  refused(413, "announced, awaiting 100", bodyTooLarge, post("Content-Length: 11\r\nExpect: 100-continue\r\n"), small),
  refused(413, "chunked", bodyTooLarge, post(chunked, "b\r\nhello world\r\n"), { ...small, upstream: silent }),
  refused(414, "over 8 KiB", targetTooLong, get(`/v2/${kilobytes(8)}`)),
  refused(414, "over 16 KiB", targetTooLong, get(`/v2/${kilobytes(20)}`), {
    ...unspent,
    notOverHttp2: "the head is too large, which is 431",
  }),
  refused(417, "another expectation", badExpect, post(`Expect: something\r\n${two}`, "hi")),
  refused(429, "to GET", throttled, get(), exhausted),
  refused(429, "to HEAD", throttled, get("/v2/x", "", "HEAD"), exhausted),
  refused(429, "a body unread", throttled, post("Content-Length: 99\r\n"), exhausted),
  refused(429, "a bad token", throttled, anonymous("GET"), exhausted),
  refused(431, "one large field", headTooLarge, get("/v2/x", `X: ${kilobytes(20)}\r\n`), unspent),
  refused(431, "300 fields", tooManyFields, get("/v2/x", many), unspent),
  refused(431, "17 KiB of trailers", trailersTooLarge, post(chunked, `2\r\nhi\r\n0\r\nX: ${kilobytes(17)}\r\n\r\n`), {
    upstream: silent,
    ...framed,
  }),
  refused(501, "gzip, chunked", badEncoding, post("Transfer-Encoding: gzip, chunked\r\n", "0\r\n\r\n"), framed),
  refused(501, "a method that is none", badMethod, get("/v2/x", "", "FOO"), unspent),
  refused(501, "TRACE", badMethod, get("/v2/x", "", "TRACE")),
  refused(501, "CONNECT", badMethod, "CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n", { ...unspent, ...byFrames }),
];

/** Replies that take more than one request or another gateway: the test that has one, with words of the reply or its reason. */
export const answeredElsewhere: Readonly<
  Partial<Record<keyof typeof localReplies, readonly [file: string, words: string]>>
> = {
  plainHttp: ["listener/tls.sampled.test.ts", "The request is plain HTTP"],
  badFieldName: ["conformance/field-names.test.ts", "bad_field_name"],
  smallPieces: ["transport/costly-bodies.test.ts", "small_pieces"],
  insufficientScope: ["auth/token-ends.test.ts", "insufficient_scope"],
  blocked: ["runtime-rules/gateway.sampled.test.ts", "blocked"],
  tooManyRefusals: ["pipeline.test.ts", "too_many_refusals"],
  overConnectionShare: ["upstream/client-shares.sampled.test.ts", "its share of the connections to the upstream"],
  slowWhileOthersWait: ["upstream/client-shares.sampled.test.ts", "This transfer is slow"],
  overClientConnectionShare: ["listener/bounds.sampled.test.ts", 'resource="client_connections"'],
  overQueueShare: ["upstream/client-shares.sampled.test.ts", "its share of the waiting requests"],
  overTunnelShare: ["upstream/tunnel-shares.test.ts", "its share of the tunnels"],
  storeUnavailable: ["shared-store/closed.test.ts", "store_unavailable"],
  internal: ["exchange/matrix.sampled.test.ts", "internal"],
};

const broken = (name: string, upstream: (socket: Socket) => void): AnswerCase =>
  refused(502, name, failed, get(), { upstream });
const invalid = (name: string, fields: string): AnswerCase => broken(name, answers("200 OK", fields, "ok"));

export const upstreamFailures: readonly AnswerCase[] = [
  refused(502, "refused", failed, get(), { upstreamUrl: freeAddress }),
  refused(502, "refused, to HEAD", failed, get("/v2/x", "", "HEAD"), { upstreamUrl: freeAddress }),
  refused(502, "refused, with a body", failed, post(two, "hi"), { upstreamUrl: freeAddress }),
  broken("reset", (socket) => void socket.resetAndDestroy()),
  broken("closed without a byte", (socket) => void socket.end()),
  broken("closed inside the head", (socket) => void socket.end("HTTP/1.1 200 OK\r\nA")),
  broken("not HTTP", (socket) => void socket.write("nonsense\r\n\r\n")),
  broken("a status that is none", answers("0 OK", two, "ok")),
  broken("a 101 to no protocol", answers("101 Switching Protocols", "")),
  broken("interim responses without end", (socket) => void socket.write("HTTP/1.1 102 P\r\n\r\n".repeat(17))),
  broken("an upgrade nobody asked for", answers("101 Switching Protocols", "Connection: Upgrade\r\nUpgrade: x\r\n")),
  invalid("two lengths", `${two}Content-Length: 3\r\n`),
  invalid("length and encoding", `${two}${chunked}`),
  invalid("NUL in a field", `X: a\0b\r\n${two}`),
  invalid("bare CR in a field", `X: a\rb\r\n${two}`),
  invalid("a space in a field's name", `X : a\r\n${two}`),
  invalid("head over 16 KiB", `X: ${kilobytes(20)}\r\n${two}`),
  refused(503, "every connection busy for too long", overloaded, get(), {
    upstream: silent,
    overrides: { upstream: { maxConnections: 1, connectTimeoutMs: 300 } },
    before: occupy,
    notOverHttp2: "what has to happen before is done over HTTP/1.1 without TLS: upstream/client-shares-http2.test.ts",
    remaining: 98,
  }),
  refused(504, "no response in time", timedOut, get(), {
    upstream: silent,
    overrides: { upstream: { responseTimeoutMs: 300 } },
  }),
  refused(504, "no connection in time", timedOut, get(), {
    upstreamUrl: unacceptingAddress,
    overrides: { upstream: { connectTimeoutMs: 300 } },
  }),
];
