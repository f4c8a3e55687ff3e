// 200,000 addresses of one network, a million in `npm run test:nightly`, through the whole pipeline: see rotation.sampled.test.ts.
import { expect, test } from "vitest";
import { fifth } from "../support/runs.ts";
import { addressIn, limit, pipeline } from "./rotation.ts";

const addresses = fifth(1_000_000);

test(`${addresses} addresses of one /64 are admitted as often as one address`, () => {
  const isAdmitted = pipeline("x-forwarded-for");
  const seen = new Set<string>();
  let admitted = 0;
  for (let i = 0; i < addresses; i += 1) {
    const address = addressIn("2001:db8:1:2", i);
    seen.add(address);
    if (isAdmitted(address, [])) admitted += 1;
  }
  expect(seen.size).toBe(addresses);
  expect(admitted).toBe(limit);
  expect(isAdmitted(addressIn("2001:db8:1:3", 0), [])).toBe(true);
});
