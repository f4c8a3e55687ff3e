// What every carrier does alike, case by case: the limit and its refusal to the byte, the token, the budget for refusals, the
// forms of resets and errors, and preflights. How each message is read is in messages/rules.ts.
import { describe, expect, test } from "vitest";
import type { Policy } from "../../src/core/policy.ts";
import { type Answer, type Asked, openCarriers } from "../support/carriers.ts";
import { useCleanup } from "../support/cleanup.ts";
import { FakeClock } from "../support/clock.ts";
import { errorContent, expectContractFields } from "../support/contract-fields.ts";
import { slidingPolicy } from "../support/policy.ts";
import { valuesOf } from "../support/raw-client.ts";
import { useTls } from "../support/tls-listener.ts";

const cleanup = useCleanup();
const tls = useTls();

const names = [
  ...(["HTTP/1.1", "HTTP/2", "auth-request", "forward-auth", "ext-authz", "gRPC"] as const),
  ...(["plugin", "plugin over HTTP/2"] as const),
];
type Name = (typeof names)[number];

const trusted = { trustedProxies: ["127.0.0.1"], header: "x-forwarded-for", ipv6Prefix: 64 } as const;
const page = "https://app.example";

/** All carriers with the same policies and a clock that stands still. Each has a client of its own. */
async function stage(policies: readonly Policy[], same: Parameters<typeof openCarriers>[2] & object = {}) {
  const clock = new FakeClock();
  const { ask, ...rest } = await openCarriers(cleanup, tls(), {
    overrides: { policies, clientAddress: trusted, ...same.overrides },
    plugin: { clientAddress: { trustedProxies: trusted.trustedProxies }, ...same.plugin },
    clock,
  });
  const askAs = (name: Name, asked: Asked = {}): Promise<Answer> =>
    ask[name]({ client: `203.0.113.${names.indexOf(name)}`, ...asked }, cleanup);
  return { ...rest, clock, ask: askAs };
}

const limited = (limit: number): readonly Policy[] => [slidingPolicy({ limit, windowMs: 60_000 })];
const isCheck = (name: Name): boolean => name === "gRPC" || name.includes("auth");
/** In lower case where the carrier has them so. */
const spelling = (name: Name) => (field: string) =>
  name.includes("2") || name === "gRPC" ? field.toLowerCase() : field;
const throttled = ["Too Many Requests", "Too many requests, please try again later."] as const;

function expectAnswer(name: Name, answer: Answer, status: number, limit: number, remaining: number): void {
  expect([name, answer.status]).toEqual([name, status]);
  expectContractFields(answer, { limit, remaining }, spelling(name));
  const meant = valuesOf(answer.rawHeaders, "X-Headgate-Status");
  // Envoy tells its client all fields of an admission.
  expect(meant).toEqual(isCheck(name) && !(name === "gRPC" && status === 200) ? [`${status}`] : []);
}

describe.each(names)("%s", (name) => {
  test("as many as the limit are admitted, the next is the exact 429, and who waits Retry-After is admitted", async () => {
    const { ask, clock } = await stage(limited(20));
    for (let left = 19; left >= 0; left -= 1) expectAnswer(name, await ask(name), 200, 20, left);
    const refused = await ask(name);
    expectAnswer(name, refused, 429, 20, 0);
    expect(refused.body).toBe(errorContent("v2", 429, ...throttled)[0]);
    for (const [field, value] of [
      ["Retry-After", "60"],
      ["Cache-Control", "no-store"],
      ["Content-Type", "application/json; charset=utf-8"],
    ] as const) {
      expect([field, valuesOf(refused.rawHeaders, field)]).toEqual([field, [value]]);
    }
    expect((await ask(name, { client: "203.0.113.99" })).status).toBe(200);
    clock.advance(59_999);
    expect((await ask(name)).status).toBe(429);
    clock.advance(1);
    expect((await ask(name)).status).toBe(200);
  });

  test("without a token it is 401 and has spent quota", async () => {
    const { ask } = await stage(limited(100));
    const answer = await ask(name, { token: null });
    expectAnswer(name, answer, 401, 100, 99);
    expect(valuesOf(answer.rawHeaders, "WWW-Authenticate")).toEqual(['Bearer realm="finance"']);
  });

  // A method that nobody knows makes a request line that HTTP/1.1 cannot read: conformance/refusals.test.ts.
  const readsMethods = name.includes("2") || name === "gRPC" || name.endsWith("-request") || name === "forward-auth";
  test.each([
    ...(name.startsWith("plugin") ? [] : [["a path under no route", { target: "/health" }, 404] as const]),
    ...(readsMethods ? [["a method that nobody knows", { method: "FOO" }, 501] as const] : []),
  ])("as many refusals of %s as the budget has, then 429", async (_, refused, status) => {
    const refusals = { perSecond: 1, burst: 5 };
    const { ask, clock } = await stage(limited(100), { overrides: { refusals }, plugin: { refusals } });
    for (let i = 0; i < 5; i += 1) expect((await ask(name, refused)).status).toBe(status);
    const answer = await ask(name, refused);
    expectAnswer(name, answer, 429, 100, 100);
    expect(valuesOf(answer.rawHeaders, "Retry-After")).toEqual(["1"]);
    expect((await ask(name, { ...refused, client: "203.0.113.99" })).status).toBe(status);
    expect((await ask(name)).status).toBe(200);
    clock.advance(1_000);
    expect((await ask(name, refused)).status).toBe(status);
    expect((await ask(name, refused)).status).toBe(429);
  });
});

test("all carriers of a gateway spend one quota", async () => {
  const { ask } = await stage(limited(9));
  const ofGateway = names.filter((name) => !name.startsWith("plugin"));
  const seen: string[] = [];
  for (const name of [...ofGateway, ...ofGateway]) {
    const { status, rawHeaders } = await ask(name, { client: "203.0.113.99" });
    seen.push(`${status} ${valuesOf(rawHeaders, "RateLimit-Remaining")}`);
  }
  const admitted = Array.from({ length: 9 }, (_, i) => `200 ${8 - i}`);
  expect(seen).toEqual([...admitted, "429 0", "429 0", "429 0"]);
});

test.each(["epoch", "delta"] as const)("resetFormat %s: both Reset headers say it", async (resetFormat) => {
  const { ask, clock } = await stage(limited(1), { overrides: { resetFormat }, plugin: { resetFormat } });
  const second = clock.wallMs() / 1000 + 60;
  // Admitted, then refused.
  for (const passedMs of [0, 18_500]) {
    clock.advance(passedMs);
    const reset = resetFormat === "epoch" ? second : Math.ceil(60 - passedMs / 1000);
    for (const name of names) {
      for (const target of name.startsWith("plugin") ? ["/v2/x"] : ["/v2/x", "/elsewhere"]) {
        const { rawHeaders } = await ask(name, { target });
        const resets = ["RateLimit-Reset", "X-RateLimit-Reset"].flatMap((field) => valuesOf(rawHeaders, field));
        expect([name, target, ...resets]).toEqual([name, target, `${reset}`, `${reset}`]);
      }
    }
  }
});

test.each(["problem", "plain"] as const)("errors.format %s: a refusal has it", async (format) => {
  const errors = { format };
  const { ask } = await stage(limited(1), { overrides: { errors }, plugin: { errors } });
  for (const name of names) {
    await ask(name);
    const { body, rawHeaders } = await ask(name);
    const [expected, type] = errorContent(format, 429, ...throttled);
    expect([name, body, valuesOf(rawHeaders, "Content-Type")]).toEqual([name, expected, [type]]);
  }
});

test("a preflight of a listed origin needs no token, and its page may read a refusal", async () => {
  const cors = { origins: [page] };
  const { ask } = await stage(limited(100), { overrides: { cors }, plugin: { cors } });
  const preflight = [["access-control-request-method", "PUT"]] as const;
  const corsOf = ({ rawHeaders }: Answer) =>
    ["Access-Control-Allow-Origin", "Vary"].map((field) => valuesOf(rawHeaders, field));
  for (const name of names) {
    const from = async (origin: string, method: string, more: Asked["fields"] & object) =>
      await ask(name, { token: null, method, fields: [["origin", origin], ...more] });
    expect([name, (await from(page, "OPTIONS", preflight)).status]).toEqual([name, 200]);
    const refused = await from(page, "GET", []);
    expect([name, refused.status, ...corsOf(refused)]).toEqual([name, 401, [page], ["Origin"]]);
    const exposed = valuesOf(refused.rawHeaders, "Access-Control-Expose-Headers");
    expect(exposed).toEqual([expect.stringContaining("RateLimit-Remaining")]);
    const stranger = await from("https://b", "OPTIONS", preflight);
    expect([name, stranger.status, ...corsOf(stranger)]).toEqual([name, 401, [], []]);
  }
});
