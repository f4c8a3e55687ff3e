// Whatever stands in a policy, the answer is a list of errors or policies that the limiter can hold, never an exception.
import fc from "fast-check";
import { expect, test } from "vitest";
import { parsePluginOptions } from "../../src/fastify/plugin-options.ts";
import { runs } from "../support/runs.ts";

const odd = fc.constantFrom(null, "", 0, -1, 1.5, 1e9, true, "x", "\u0000", "*", [], {}, [null], [[]], "é");
const network = fc.constantFrom("10.0.0.0/8", "10.1.0.0/16", "::/0", "0.0.0.0/0", "2001:db8::1", "::ffff:1.2.3.4", "x");
const limit = fc.constantFrom(1, 5, 100, 10_001, 65_536, 1_000_000);
const path = fc.constantFrom("/", "/v1/", "/V1/x", "/v2/*/x", "/v3/", "/*/", "/v1/**", "/v1/:id", "//", "/v1/..");
const override = fc.record(
  {
    client: fc.oneof({ weight: 9, arbitrary: network }, odd),
    token: fc.constantFrom("acme", "ab".repeat(32), "AB".repeat(32)),
    subject: fc.constantFrom("acme", "\n"),
    header: fc.constantFrom("gold", " gold"),
    limit: fc.oneof({ weight: 9, arbitrary: limit }, odd),
  },
  { requiredKeys: [] },
);
const keys = {
  name: fc.oneof({ weight: 9, arbitrary: fc.constantFrom("a", "b", "c", "d") }, odd),
  limit: fc.oneof({ weight: 9, arbitrary: limit }, odd),
  window: fc.oneof({ weight: 9, arbitrary: fc.constantFrom("100ms", "60s", "31d") }, odd),
  per: fc.constantFrom(null, null, null, "minute", "month", "fortnight-ish"),
  timezone: fc.constantFrom(null, null, "UTC", "Europe/Berlin", "Mars/Base"),
  concurrency: fc.constantFrom(null, null, 1, 65_535, 65_536),
  match: fc.oneof(fc.record({ paths: fc.array(path), methods: fc.array(fc.constantFrom("GET", "get", "*")) }), odd),
  key: fc.oneof(fc.subarray(["client", "token", "header:x", "header:Y", "route", "method", "subject", "claim:x"]), odd),
  cost: fc.oneof({ weight: 9, arbitrary: fc.constantFrom(1, 1, 2, 200) }, odd),
  charge: fc.oneof(fc.record({ statuses: fc.array(fc.constantFrom(401, 403, 600)) }), odd),
  mode: fc.constantFrom("enforce", "shadow"),
  exempt: fc.oneof(fc.array(fc.oneof({ weight: 9, arbitrary: network }, odd), { maxLength: 3 }), odd),
  overrides: fc.oneof(fc.array(override, { maxLength: 3 }), odd),
};
const written = fc.record(keys);
const valid = fc.constantFrom<object>(
  {
    limit: 100,
    window: "60s",
    key: ["client", "header:x"],
    overrides: [{ client: "10.9.0.0/16", limit: 7 }],
  },
  {
    limit: 100,
    per: "month",
    timezone: "Europe/Berlin",
    key: ["token"],
    overrides: [{ token: "ab".repeat(32), limit: 7 }],
  },
  { concurrency: 10, key: [], mode: "shadow", exempt: ["10.0.0.0/8"] },
);
/** A valid one of which up to three keys are written anew. */
const policy = fc
  .tuple(valid, written, fc.subarray(Object.keys(keys), { maxLength: 3 }))
  .map(([base, other, changed]) => ({
    ...base,
    ...Object.fromEntries(Object.entries(other).filter(([key]) => changed.includes(key))),
  }));

test("errors, or policies that can be held", () => {
  let loaded = 0;
  fc.assert(
    fc.property(fc.array(policy, { minLength: 1, maxLength: 3 }), (list) => {
      const policies = list.map((each, i) => ({ name: `policy-${i}`, ...each }));
      try {
        const parsed = parsePluginOptions({ policies, routes: ["/v1/", "/v2/"] });
        loaded += 1;
        expect(new Set(parsed.policies.map(({ name }) => name)).size).toBe(policies.length);
        for (const { rate, limit, cost, key, overrides, chargeStatuses } of parsed.policies) {
          const limits = [limit, ...overrides.map((each) => each.limit)];
          expect(Math.min(...limits)).toBeGreaterThanOrEqual(cost);
          if (rate.kind === "concurrency") expect(chargeStatuses).toBeNull();
          if (rate.kind === "concurrency") expect(Math.max(...limits)).toBeLessThanOrEqual(65_535);
          expect(Math.max(...limits)).toBeLessThanOrEqual(1_000_000_000);
          if (chargeStatuses !== null) expect(Math.max(...limits)).toBeLessThanOrEqual(10_000);
          for (const { part } of overrides) expect(key.filter(({ kind }) => kind === part)).toHaveLength(1);
        }
      } catch (error) {
        expect((error as Error).name).toBe("OptionsError");
        expect((error as Error).message).toMatch(/^The options of headgate are not valid:(\n {2}options: .*)+$/);
      }
    }),
    runs(4_000),
  );
  expect(loaded).toBeGreaterThan(30);
});
