// What Envoy gets while nobody can decide about a quota: a refusal, because it lets requests pass if a call fails, unless
// it is told otherwise.
import { expect, test } from "vitest";
import { useLateLimiter } from "../../exchange/late-limiter.ts";
import { useCleanup } from "../../support/cleanup.ts";
import { call } from "./client.ts";
import { check, shouldRateLimit } from "./protocol.ts";
import { checkRequest, rateLimitRequest } from "./requests.ts";
import { stageGrpc } from "./stage.ts";

const cleanup = useCleanup();
const limiter = useLateLimiter();

const said = {
  message: "Service Unavailable",
  errors: [{ errMsg: "The rate limit cannot be checked at the moment, please try again later." }],
};

interface CheckResponse {
  readonly status: { readonly code: number };
  readonly denied_response: {
    readonly status: { readonly code: number };
    readonly headers: readonly { readonly header: { readonly key: string; readonly value: string } }[];
    readonly body: string;
  } | null;
}

test.each([
  [429, 503],
  [403, 403],
] as const)("with denyStatus %i, external authorization refuses with %i", async (denyStatus, status) => {
  const stage = await stageGrpc(cleanup, { extAuth: { denyStatus } });
  limiter.says("unavailable", "at once");
  const { message } = await call<CheckResponse>(stage.client, check, checkRequest());
  expect(message?.status.code).toBe(7);
  const denied = message?.denied_response;
  expect(denied?.status.code).toBe(status);
  const headers = Object.fromEntries((denied?.headers ?? []).map(({ header: { key, value } }) => [key, value]));
  expect(headers).toMatchObject({ ...stage.fields(100), "x-headgate-status": "503" });
  expect(JSON.parse(denied?.body ?? "")).toEqual(said);
});

interface RateLimitResponse {
  readonly overall_code: string;
  readonly statuses: readonly { readonly code: string }[];
  readonly response_headers_to_add: readonly { readonly key: string; readonly value: string }[];
  readonly raw_body: Buffer;
}

test("the rate limit service answers that the request is over the limit, with what it is about", async () => {
  const stage = await stageGrpc(cleanup);
  limiter.says("unavailable", "later");
  const answered = call<RateLimitResponse>(stage.client, shouldRateLimit, rateLimitRequest());
  await expect.poll(() => limiter.asked()).toBe(1);
  limiter.decide();
  const { status, message } = await answered;
  expect([status, message?.overall_code]).toEqual(["OK", "OVER_LIMIT"]);
  expect(message?.statuses).toMatchObject([{ code: "OVER_LIMIT" }]);
  const headers = Object.fromEntries((message?.response_headers_to_add ?? []).map(({ key, value }) => [key, value]));
  expect(headers).toMatchObject({ "retry-after": "1", "x-headgate-status": "503", "ratelimit-limit": "100" });
  expect(JSON.parse(String(message?.raw_body))).toEqual(said);
});
