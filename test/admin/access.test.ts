// Which Host the admin API answers for, where a port that is not named is that of the scheme.
import { expect, test } from "vitest";
import { findForeign } from "../../src/admin/access.ts";
import { AdminTokens } from "../../src/admin/admin-tokens.ts";

test.each<[host: string, isTls: boolean, port: number, hosts: string[], isAnswered: boolean]>([
  ["192.0.2.1", true, 443, [], true],
  ["192.0.2.1", false, 80, [], true],
  ["192.0.2.1", true, 80, [], false],
  ["192.0.2.1", false, 443, [], false],
  ["192.0.2.1:443", true, 443, [], true],
  ["192.0.2.1:9464", true, 9464, [], true],
  ["192.0.2.1", true, 9464, [], false],
  ["admin.test", true, 9464, ["admin.test"], true],
  ["admin.test", true, 9464, ["admin.test:443"], true],
  ["admin.test", true, 9464, ["admin.test:9464"], false],
  ["admin.test:9464", true, 9464, ["admin.test:9464"], true],
])("Host %s, over TLS: %s, on port %d, with the hosts %j: %s", (host, isTls, port, hosts, isAnswered) => {
  const reached = { isUnixSocket: false, isTls, peerKey: "a", local: { host: "192.0.2.1", port } };
  const access = { tokens: { value: new AdminTokens([]) }, hosts, listenHost: "0.0.0.0" };
  expect(findForeign(["Host", host], reached, access) === null).toBe(isAnswered);
});
