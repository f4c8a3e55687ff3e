import { expect, test } from "vitest";
import { errorBody, type LocalReply, localReplies, refusalReasons, serverOptions } from "../../src/core/local-reply.ts";

test("the statuses and words of every refusal", () => {
  const said = Object.values(localReplies).map(({ status, reason, message }) => `${status} ${message}: ${reason}`);
  expect(said).toEqual([
    "400 Bad Request: malformed",
    "400 Bad Request: malformed",
    "400 Bad Request: ambiguous_path",
    "400 Bad Request: bad_host",
    "400 Bad Request: bad_field_name",
    "400 Bad Request: small_pieces",
    "401 Unauthorized: no_token",
    "401 Unauthorized: invalid_token",
    "401 Unauthorized: invalid_token",
    "401 Unauthorized: expired_token",
    "403 Forbidden: insufficient_scope",
    "403 Forbidden: blocked",
    "404 Not Found: no_route",
    "405 Method Not Allowed: method_not_allowed",
    "408 Request Timeout: slow_request",
    "413 Content Too Large: body_too_large",
    "414 URI Too Long: target_too_long",
    "431 Request Header Fields Too Large: head_too_large",
    "431 Request Header Fields Too Large: head_too_large",
    "431 Request Header Fields Too Large: head_too_large",
    "417 Expectation Failed: unsupported_expect",
    "501 Not Implemented: unsupported_encoding",
    "501 Not Implemented: unsupported_method",
    "429 Too Many Requests: throttled",
    "429 Too Many Requests: too_many_refusals",
    "502 Bad Gateway: upstream_failed",
    "504 Gateway Timeout: upstream_timeout",
    "503 Service Unavailable: client_share",
    "503 Service Unavailable: client_share",
    "503 Service Unavailable: client_share",
    "503 Service Unavailable: client_share",
    "503 Service Unavailable: client_share",
    "503 Service Unavailable: store_unavailable",
    "503 Service Unavailable: overloaded",
    "500 Internal Server Error: internal",
  ]);
});

test.each(Object.entries(localReplies))("%s is in the v2 format, in ASCII, and frozen", (_, problem) => {
  const body = errorBody(problem);
  expect(JSON.parse(body)).toEqual({ message: problem.message, errors: [{ errMsg: problem.errMsg }] });
  expect(body).toMatch(/^[ -~]+$/);
  expect(problem.errMsg).toMatch(/\.$/);
  expect(Object.isFrozen(problem)).toBe(true);
});

test("the bodies that clients may rely on, to the byte", () => {
  expect(errorBody(localReplies.throttled)).toBe(
    '{"message":"Too Many Requests","errors":[{"errMsg":"Too many requests, please try again later."}]}',
  );
  for (const problem of [localReplies.noToken, localReplies.malformedToken, localReplies.invalidToken]) {
    expect(errorBody(problem)).toBe('{"message":"Unauthorized","errors":[{"errMsg":"Access token does not exist."}]}');
  }
});

test("OPTIONS * is answered and refuses nothing", () => {
  expect(serverOptions).toMatchObject({ status: 204, reason: null, body: "" });
});

test("each reason has a reply", () => {
  const said = new Set(Object.values(localReplies).map(({ reason }) => reason));
  expect([...said].sort()).toEqual([...refusalReasons].sort());
});

test("of two replies with one reason, the log says which it was", () => {
  const replies: readonly LocalReply[] = Object.values(localReplies);
  const said = replies.map(({ reason, detail }) => `${reason} ${JSON.stringify(detail)}`);
  expect(said.filter((each, i) => said.indexOf(each) !== i)).toEqual([]);
});
