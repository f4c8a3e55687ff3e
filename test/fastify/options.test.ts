// The options are held to the rules of the configuration file, with its messages: nothing wrong becomes a default.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { fastify } from "fastify";
import { expect, expectTypeOf, test, vi } from "vitest";
import type { PeriodName } from "../../src/core/policy.ts";
import { type HeadgateOptions, headgate } from "../../src/fastify/index.ts";
import { parsePluginOptions, type pluginOptions } from "../../src/fastify/plugin-options.ts";
import { digestOf } from "../auth/digest.ts";
import { useCleanup } from "../support/cleanup.ts";
import { eventually } from "../support/eventually.ts";
import { scratchFolder } from "../support/scratch.ts";
import { request } from "../support/stage.ts";
import { holdTimers } from "../support/timers.ts";
import { startTestApp } from "./app.ts";

const cleanup = useCleanup();

/** The lines of the error. */
function errorsOf(options: unknown): string[] {
  try {
    parsePluginOptions(options);
    return [];
  } catch (error) {
    return (error as Error).message
      .split("\n")
      .slice(1)
      .map((line) => line.trim());
  }
}

test("the types of the options are those of the schema", () => {
  type Policy = NonNullable<HeadgateOptions["policies"]>[number];
  expectTypeOf<keyof HeadgateOptions>().toEqualTypeOf<keyof (typeof pluginOptions)["keys"]>();
  expectTypeOf<Policy["per"]>().toEqualTypeOf<PeriodName | null | undefined>();
  expectTypeOf<Policy["name"]>().toEqualTypeOf<string>();
  expectTypeOf<HeadgateOptions["maxBodyBytes"]>().toEqualTypeOf<string | number | undefined>();
  type Upstream = NonNullable<HeadgateOptions["upstream"]>;
  expectTypeOf<Upstream["url"]>().toEqualTypeOf<string>();
  expectTypeOf<Upstream["keepAlive"]>().toEqualTypeOf<string | 0 | undefined>();
  expectTypeOf<Upstream["connectTimeout"]>().toEqualTypeOf<string | undefined>();
  expectTypeOf<{ upstream: { hostHeader: "url" } }>().not.toExtend<HeadgateOptions>();
  expectTypeOf<{ policies: [{ name: "a"; per: "fortnight-ish" }] }>().not.toExtend<HeadgateOptions>();
});

test("the minimum rate of bodies is 4 KiB a second unless it is set", () => {
  const rateOf = (options: unknown): number => parsePluginOptions(options).timeouts.bodyRate;
  expect([rateOf({}), rateOf({ timeouts: { bodyRate: "256B" } })]).toEqual([4096, 256]);
  expect(errorsOf({ timeouts: { bodyRate: 0 } })).toEqual([
    'options: timeouts.bodyRate: found 0, expected a size from 256B to 1MiB, such as "4KiB"',
  ]);
});

test("without options there is the one policy of the specification, and a token is asked for", () => {
  expect(parsePluginOptions({})).toMatchObject({
    policies: [{ name: "per-ip", limit: 100, rate: { kind: "sliding", windowMs: 60_000 } }],
    auth: { mode: "presence" },
    routes: ["/"],
    fields: ["standard", "legacy"],
    resetFormat: "epoch",
    upstream: null,
  });
});

test.each([
  [
    { policies: [{ name: "a", limit: 0, window: "60s" }] },
    "options: policies.0.limit: found 0, expected a whole number from 1 to 1000000000",
  ],
  [
    { policies: [{ name: "a", limit: 1, window: 60 }] },
    'options: policies.0.window: found 60, expected a duration with its unit, such as "60s"',
  ],
  [
    { policies: [{ name: "a", limit: 1, window: "60s", colour: 5 }] },
    "options: policies.0.colour: unknown key; expected name, limit, window, per, timezone, concurrency, match, who, key, cost, charge, mode, exempt or overrides",
  ],
  [{ policies: [] }, "options: policies: found an empty list, expected a list of 1 to 32 policies"],
  [{ polices: [] }, 'options: polices: unknown key; did you mean "policies"?'],
  [
    { listen: { port: 80 } },
    /^options: listen: unknown key; expected policies, enforcement, refusals, auth, clientAddress, /,
  ],
  [{ prefix: "/v1" }, /^options: prefix: unknown key/],
  [
    { auth: { mode: "jwt" } },
    'options: auth.mode: found "jwt", expected off, presence or tokens (jwt is not supported yet)',
  ],
  [
    { auth: { mode: "tokens" } },
    "options: auth.tokensFile: found nothing, expected the path of a file, since auth.mode is tokens; name the file, or change auth.mode",
  ],
  [{ auth: null }, "options: auth: found null, expected an object of mode, rules, realm and tokensFile"],
  [
    { clientAddress: { trustedProxies: "10.0.0.0/8" } },
    /^options: clientAddress\.trustedProxies: found "10\.0\.0\.0\/8", expected a list/,
  ],
  [{ fields: ["structured"] }, /^options: fields: found \["structured"\], expected standard or legacy among them/],
  [{ routes: ["/v1"] }, /^options: routes\.0: found "\/v1", expected a path that begins and ends with/],
  [
    { policies: () => [] },
    "options: policies: found function, expected a value that the configuration file can have as well",
  ],
  [
    { log: new Date(0) },
    "options: log: found [object Date], expected a value that the configuration file can have as well",
  ],
  [{ maxBodyBytes: Number.NaN }, /^options: maxBodyBytes: found NaN, expected a size from 1B to 1TiB/],
  [
    { counters: { redis: { url: "redis://127.0.0.1" } } },
    "options: counters.redis: unknown key; the plugin counts in its own process; a limit over several processes needs the gateway in front of them",
  ],
  [
    { quota: { path: "/quota" } },
    "options: quota: unknown key; only the gateway answers callers that ask what they have left; the plugin says it in the headers of each response",
  ],
  [
    { maxHeaderBytes: "32KiB" },
    "options: maxHeaderBytes: unknown key; the server of the app reads heads before any plugin: give serverOptions({ maxHeaderBytes: 32768 })",
  ],
  [{ maxTargetBytes: "65KiB" }, /^options: maxTargetBytes: found "65KiB", expected a size from 1KiB to 64KiB/],
  [{ upstream: {} }, /^options: upstream\.url: found nothing, expected an absolute http/],
  [{ upstream: { url: "api.test" } }, /^options: upstream\.url: found "api\.test", expected an absolute http/],
  [
    { upstream: { url: "http://a", addresses: ["10.0.0.1"] } },
    /^options: upstream\.addresses: unknown key; expected url, hostHeader, tls, /,
  ],
  [
    { upstream: { url: "http://a", tls: { insecureSkipVerify: true } } },
    "options: upstream.tls.insecureSkipVerify: found true, expected false, since upstream.url is not https; remove it, or begin upstream.url with https://",
  ],
  [{ upstream: "http://a" }, /^options: upstream: found "http:\/\/a", expected a mapping of url, /],
])("%j is refused in these words", (options, message) => {
  const errors = errorsOf(options);
  expect(errors).toHaveLength(1);
  if (typeof message === "string") expect(errors[0]).toBe(message);
  else expect(errors[0]).toMatch(message);
});

test("an upstream of null is none", () => {
  expect(parsePluginOptions({ upstream: null }).upstream).toBeNull();
});

test("all errors are told at once", () => {
  expect(errorsOf({ policies: [{ name: "a", limit: -1, window: "1y" }], auth: { mode: "no" }, other: 1 })).toHaveLength(
    4,
  );
});

test("an app with wrong options is never ready", async () => {
  const app = cleanup(fastify());
  app.register(headgate, { policies: [{ name: "a", limit: 0, window: "60s" }] });
  await expect(app.ready()).rejects.toThrow("policies.0.limit: found 0");
});

test("an app has one gate", async () => {
  const { app } = await startTestApp(cleanup, {
    before: (app) => void app.register(headgate, {}),
  }).catch((error: Error) => ({ app: error }));
  expect(app).toMatchObject({ message: expect.stringContaining("registered with this app already") });
});

test("a route cannot say of headgate what is neither true nor false", async () => {
  const app = cleanup(fastify());
  await app.register(headgate, {});
  // @ts-expect-error: a program without types can write it.
  expect(() => app.get("/x", { config: { headgate: "off" } }, async () => "ok")).toThrow(
    "config.headgate of the route /x",
  );
});

test("the tokens file is watched", async () => {
  holdTimers(cleanup);
  const folder = scratchFolder(cleanup);
  const file = join(folder, "tokens");
  writeFileSync(file, `${digestOf("other")}\n`);
  const { connect } = await startTestApp(cleanup, {
    options: {
      policies: [{ name: "a", limit: 10_000, window: "60s" }],
      auth: { mode: "tokens", tokensFile: file },
    },
    routes: (app) => app.get("/x", async () => "ok"),
  });
  const client = connect();
  const ask = async (): Promise<number> => {
    return (await client.ask(request("/x"))).status;
  };
  expect(await ask()).toBe(401);
  writeFileSync(file, `${digestOf("secret-token")}\n`);
  await eventually("the new token passes", async () => {
    vi.advanceTimersByTime(1_000);
    return (await ask()) === 200;
  });
});

test.each([
  ["missing", "/nowhere/tokens", "auth.tokensFile: /nowhere/tokens: cannot be read: ENOENT"],
  ["not a list of digests", import.meta.filename, /auth\.tokensFile: .*options\.test\.ts:1: found /],
])("a tokens file that is %s keeps the app from starting", async (_, tokensFile, message) => {
  const app = cleanup(fastify());
  app.register(headgate, { auth: { mode: "tokens", tokensFile } });
  await expect(app.ready()).rejects.toThrow(message);
});
