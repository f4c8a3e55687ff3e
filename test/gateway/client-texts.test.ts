import { expect, test } from "vitest";
import { readKeyText } from "../../src/gateway/control/key-text.ts";

const digits = "0123456789abcdef0123456789abcdef";

test.each([
  ["client:203.0.113.7", "client", "203.0.113.7"],
  ["client:203.0.113.7/24", "client", "203.0.113.0/24"],
  ["client:::ffff:203.0.113.7", "client", "203.0.113.7"],
  // An address is charged as its network, so that is who is meant.
  ["client:2001:db8::1", "client", "2001:db8::/64"],
  ["client:2001:DB8:0:0:1::/64", "client", "2001:db8::/64"],
  ["client:2001:db8::/32", "client", "2001:db8::/32"],
  ["token:alice", "token", "alice"],
  ["subject:a:b", "subject", "a:b"],
  [`key:${digits}`, "key", digits],
])("%s is %s %s", (written, kind, value) => {
  expect(readKeyText(written, 64)).toEqual({ ok: true, key: { kind, value } });
});

test.each([
  "",
  "203.0.113.7",
  "client:",
  "client:fe80::1%eth0",
  "client:2001:db8::/65",
  "client:203.0.113.7/33",
  "token:",
  "subject:",
  `key:${digits.toUpperCase()}`,
  "key:0",
  "claim:org",
])("%j is no key, and it is said what is expected", (written) => {
  expect(readKeyText(written, 64)).toEqual({ ok: false, expected: expect.stringMatching(/^\S.*\S$/) });
});
