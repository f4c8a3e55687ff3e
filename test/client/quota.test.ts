// Reading the caller's own quota: what a gateway says is read whole, and what is no quota is an error that says so.
import { inspect } from "node:util";
import { expect, test } from "vitest";
import { ApiError, createRetryingFetch, type Quota, readQuota } from "../../src/client/index.ts";
import { useCleanup } from "../support/cleanup.ts";
import { FakeClock } from "../support/clock.ts";
import { startTestGateway } from "../support/gateway.ts";
import { slidingPolicy } from "../support/policy.ts";
import { startUpstream } from "../support/upstream.ts";
import { notedSleep, refuse, refusing, serve } from "./server.ts";

const cleanup = useCleanup();
const token = "s3cret-token";
const perIp = slidingPolicy({ limit: 5, windowMs: 60_000 });

const quota: Quota = {
  isVerified: true,
  isShared: false,
  policies: [
    {
      ...{ name: "monthly", state: "open", limit: 100, used: 40, remaining: 60, resetSeconds: 12, cost: 1 },
      rate: { kind: "calendar", per: "month", timezone: "UTC" },
      ...{ key: ["token"], match: { paths: [], methods: [] }, method: null, route: null },
    },
  ],
};
const answering = (body: string, status = 200) => serve((response) => void response.writeHead(status).end(body));

test("reads every kind of policy that a gateway tells", async () => {
  const upstream = cleanup(await startUpstream());
  const gateway = await startTestGateway({
    upstreamUrl: upstream.url,
    clock: new FakeClock(),
    overrides: {
      quota: { path: "/quota" },
      policies: [
        perIp,
        { ...perIp, name: "daily", rate: { kind: "calendar", per: "day", timezone: "UTC" } },
        { ...perIp, name: "at-once", rate: { kind: "concurrency" } },
        { ...perIp, name: "free", exempt: ["127.0.0.1"] },
        { ...perIp, name: "tenant", key: [{ kind: "header", name: "x-tenant" }] },
        { ...perIp, name: "by-route", key: [{ kind: "client" }, { kind: "route" }] },
      ],
    },
  });
  cleanup(() => gateway.close());
  await (await fetch(`${gateway.url}/v2/x`, { headers: { authorization: `Bearer ${token}` } })).text();
  const { policies } = await readQuota({ url: `${gateway.url}/quota`, token });
  expect(policies.map(({ name, state, used, route }) => [name, state, used, route])).toEqual([
    ["per-ip", "open", 1, null],
    ["daily", "open", 1, null],
    ["at-once", "open", 0, null],
    ["free", "exempt", null, null],
    ["tenant", "unknown", null, null],
    ["by-route", "open", 0, "/v1/"],
    ["by-route", "open", 1, "/v2/"],
  ]);
});

test("asks once, with the token if there is one", async () => {
  const server = await answering(JSON.stringify(quota));
  expect(await readQuota({ url: new URL(`${server.url}/finance/quota`), token })).toEqual(quota);
  expect(await readQuota({ url: `${server.url}/quota` })).toEqual(quota);
  expect(server.hits.map(({ method, target, headers }) => [method, target, headers.authorization])).toEqual([
    ["GET", "/finance/quota", `Bearer ${token}`],
    ["GET", "/quota", undefined],
  ]);
});

test("waits after a 429 as long as Retry-After says, and reports one that stays", async () => {
  const noted = notedSleep();
  const server = await serve((response, hit, nth) => {
    if (nth <= 2) refusing(2, { "retry-after": "1" })(response, hit, nth);
    else response.end(JSON.stringify(quota));
  });
  expect(await readQuota({ url: server.url, token, fetch: createRetryingFetch(noted) })).toEqual(quota);
  expect(noted.waitsMs).toEqual([1000, 1000]);
  const closed = await serve((response) => refuse(response, { "retry-after": "1" }));
  const patient = createRetryingFetch({ ...notedSleep(), maxAttempts: 2 });
  await expect(readQuota({ url: closed.url, token, fetch: patient })).rejects.toMatchObject({
    name: "ApiError",
    status: 429,
  });
  expect(closed.hits).toHaveLength(2);
});

test("a refusal is an ApiError, which never has the token", async () => {
  const said = { message: `no ${token}`, errors: [{ errMsg: "Access token does not exist." }] };
  const server = await answering(JSON.stringify(said), 401);
  const error: unknown = await readQuota({ url: server.url, token }).catch((reason: unknown) => reason);
  expect(error).toBeInstanceOf(ApiError);
  expect(error).toMatchObject({ status: 401, message: "no [token]", errors: said.errors });
  expect(inspect(error, { depth: 9, showHidden: true })).not.toContain(token);
  await expect(readQuota({ url: server.url })).rejects.toMatchObject({ message: `no ${token}` });
});

const [policy] = quota.policies;
test.each([
  ["no JSON", "<html>"],
  ["a list", "[]"],
  ["another object", '{"transactions":[]}'],
  ["no policies", JSON.stringify({ ...quota, policies: {} })],
  ["a policy without a name", JSON.stringify({ ...quota, policies: [{ ...policy, name: undefined }] })],
  ["another state", JSON.stringify({ ...quota, policies: [{ ...policy, state: "fine" }] })],
  ["a text as a number", JSON.stringify({ ...quota, policies: [{ ...policy, resetSeconds: "12" }] })],
  ["a number that is missing", JSON.stringify({ ...quota, policies: [{ ...policy, remaining: undefined }] })],
  ["a window without a length", JSON.stringify({ ...quota, policies: [{ ...policy, rate: { kind: "sliding" } }] })],
  ["another rate", JSON.stringify({ ...quota, policies: [{ ...policy, rate: { kind: "leaky" } }] })],
])("a 200 with %s is an ApiError, not a quota", async (_, body) => {
  const server = await answering(body);
  await expect(readQuota({ url: server.url, token })).rejects.toMatchObject({
    name: "ApiError",
    status: 200,
    message: "The answer is not that of a quota; is url the gateway's quota.path?",
  });
});

test.each([
  [{ url: "/quota" }, "url must be an absolute http or https URL"],
  [{ url: "http://a", token: "a b" }, /^token must be a bearer token/],
  [{ url: "http://a", token: "" }, /^token must be a bearer token/],
])("%j is refused before any request", async (options, message) => {
  const unasked = () => Promise.reject(new Error("asked"));
  await expect(readQuota({ ...options, fetch: unasked })).rejects.toThrow(message);
});

test("an abort ends it with the signal's reason", async () => {
  const controller = new AbortController();
  const server = await serve(() => controller.abort(new Error("enough")));
  await expect(readQuota({ url: server.url, token, signal: controller.signal })).rejects.toThrow("enough");
});
