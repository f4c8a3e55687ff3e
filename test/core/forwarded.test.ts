import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type ClientAddressRules, forwardedFor, readClient, readPeer } from "../../src/core/client-address.ts";
import { formatIpAddress, parseCidr } from "../../src/core/ip-address.ts";
import { NetworkSet } from "../../src/core/network-set.ts";
import { cpuMsOf } from "../support/cpu-time.ts";

const rules: ClientAddressRules = {
  header: "forwarded",
  trustedProxies: new NetworkSet(["10.0.0.0/8", "2001:db8:ffff::/48"].flatMap((text) => parseCidr(text) ?? [])),
  ipv6Prefix: 64,
};

function clientOf(peer: string, lines: readonly string[], name = "Forwarded"): string {
  const rawHeaders = lines.flatMap((line) => [name, line, "X-Forwarded-For", "7.7.7.7"]);
  return readClient(readPeer(peer, rules), rawHeaders, rules).client.key;
}

/** As texts, null for what ends the walk. */
const read = (line: string) => [...forwardedFor(line)].map((address) => address && formatIpAddress(address));

describe("behind a trusted proxy, Forwarded is walked from the right", () => {
  test.each<[claim: string, lines: string[], client: string]>([
    ["without it: the peer, whatever X-Forwarded-For says", [], "10.0.0.1"],
    ["one element", ["for=1.2.3.4"], "1.2.3.4"],
    ["the name of the parameter in any case", ["FOR=1.2.3.4"], "1.2.3.4"],
    ["among other parameters", ['proto=https;For="1.2.3.4";by=10.0.0.1;host="a,b;for=6.6.6.6"'], "1.2.3.4"],
    ["the last untrusted one, never the leftmost", ["for=6.6.6.6, for=1.2.3.4"], "1.2.3.4"],
    ["past trusted ones", ['for=1.2.3.4, for=10.0.0.2,for="[2001:db8:ffff::1]:80"'], "1.2.3.4"],
    ["several lines are one list", ["for=6.6.6.6", "for=1.2.3.4", "for=10.0.0.2"], "1.2.3.4"],
    ["all trusted: the leftmost", ["for=10.0.0.5", "for=10.0.0.6"], "10.0.0.5"],
    ["IPv6 with a port", ['for="[2001:db8::1]:4711"'], "2001:db8::/64"],
    ["IPv4 with a port", ['for="1.2.3.4:4711"'], "1.2.3.4"],
    ["a port that is obfuscated", ['for="1.2.3.4:_port"'], "1.2.3.4"],
    ["mapped is IPv4", ['for="[::ffff:1.2.3.4]"'], "1.2.3.4"],
    ["escapes are undone", ['for="\\1.2.\\3.4"'], "1.2.3.4"],
    ["unknown ends the walk", ["for=1.2.3.4, for=unknown, for=10.0.0.2"], "10.0.0.2"],
    ["an obfuscated identifier ends the walk", ['for=1.2.3.4, for="_hidden", for=10.0.0.2'], "10.0.0.2"],
    ["an element that names nobody ends the walk", ["for=1.2.3.4, proto=https, for=10.0.0.2"], "10.0.0.2"],
    ["empty elements are no elements", [", for=1.2.3.4, , ,for=10.0.0.2,", "", " "], "1.2.3.4"],
    ["blanks around semicolons mean nothing", ["for=1.2.3.4 ; proto=http;"], "1.2.3.4"],
    ["a semicolon at the end", ["for=1.2.3.4;"], "1.2.3.4"],
    ["a semicolon at the end of a host with a port", ["for=1.2.3.4;host=api:80;"], "1.2.3.4"],
    ["a comma inside quotes separates nothing", ['for=1.2.3.4;x="a, for=6.6.6.6"'], "1.2.3.4"],
    ["an escaped quotation mark ends no string", ['for=1.2.3.4;x="a\\", for=6.6.6.6"'], "1.2.3.4"],
    ["an escaped backslash escapes nothing", ['for=6.6.6.6;x="a\\\\", for=1.2.3.4'], "1.2.3.4"],
    ["a mark left open on the left swallows nothing", ['for=6.6.6.6;x=", for=1.2.3.4'], "1.2.3.4"],
    ["nor does it before a quoted address", ['for="6.6.6.6, for="[2001:db8::1]:80"'], "2001:db8::/64"],
    ["nor on a line of its own", ['for="', "for=1.2.3.4"], "1.2.3.4"],
    ["a mark left open on the right ends the walk", ['for=6.6.6.6, for="10.0.0.2'], "10.0.0.1"],
    ["two for in one element end the walk", ["for=6.6.6.6;for=10.0.0.2"], "10.0.0.1"],
    ["two of any parameter end the walk", ["for=6.6.6.6;by=a;BY=b"], "10.0.0.1"],
    ["IPv6 without brackets and quotes, as Cloud Run writes it", ["for=6.6.6.6, for=2001:db8::1"], "2001:db8::/64"],
    ["IPv6 without brackets", ['for="2001:db8::1"'], "2001:db8::/64"],
    ["IPv6 and a port, as Spring wrote it", ['for="2001:db8:cafe:0:0:0:0:17:4711"'], "2001:db8:cafe::/64"],
    ["brackets without quotes", ["for=[2001:db8::1]"], "2001:db8::/64"],
    ["brackets and a port without quotes", ["for=[2001:db8::1]:80"], "2001:db8::/64"],
    ["a port without quotes", ["for=1.2.3.4:80"], "1.2.3.4"],
    ["a port that is obfuscated, without quotes", ["for=1.2.3.4:_port"], "1.2.3.4"],
    ["a host with a port, without quotes, left of it", ["host=api.example:8443;for=1.2.3.4"], "1.2.3.4"],
    ["a host with a port, without quotes, right of it", ["for=1.2.3.4;host=[::1]:8443;by=10.0.0.1:80"], "1.2.3.4"],
    ["IPv4 in brackets", ['for="[1.2.3.4]"'], "1.2.3.4"],
    ["a port above 65535 is none", ['for="2001:db8::7:65536"'], "10.0.0.1"],
    ["blanks around = are garbage", ["for = 6.6.6.6"], "10.0.0.1"],
    ["blanks inside quotes are garbage", ['for=" 6.6.6.6"'], "10.0.0.1"],
    ["text behind a string is garbage", ['for="6.6.6.6"x'], "10.0.0.1"],
    ["two pairs without a semicolon are garbage", ["proto=https for=6.6.6.6"], "10.0.0.1"],
    ["X-Forwarded-For's syntax is garbage", ["6.6.6.6"], "10.0.0.1"],
    ["a parameter that only ends in for is another", ["x-for=6.6.6.6"], "10.0.0.1"],
    ["an empty value is garbage", ["for="], "10.0.0.1"],
    ["an empty string names nobody", ['for=""'], "10.0.0.1"],
  ])("%s", (_, lines, client) => {
    expect(clientOf("10.0.0.1", lines)).toBe(client);
    expect(clientOf("10.0.0.1", lines, "fORWARDED")).toBe(client);
  });
});

test("past 99 trusted proxies the client is found, and behind 100 the last of them is charged", () => {
  const trusted = (count: number) => Array.from({ length: count }, (_, i) => `for=10.0.${i}.2`);
  expect(clientOf("10.0.0.1", [["for=6.6.6.6", ...trusted(99)].join(", ")])).toBe("6.6.6.6");
  expect(clientOf("10.0.0.1", [["for=6.6.6.6", ...trusted(100)].join(", ")])).toBe("10.0.0.2");
});

test("from an untrusted peer it is ignored", () => {
  for (const line of ["for=6.6.6.6", "for=6.6.6.6, for=10.0.0.1", "garbage", ""]) {
    expect(clientOf("1.1.1.1", [line])).toBe("1.1.1.1");
  }
});

test("whatever a client writes on the left, its proxy's element says who is charged", () => {
  const marks = fc.array(fc.constantFrom('"', "\\", ",", ";", "for=", "6.6.6.6", "=", " ", "[::1]", "x", "\xff"), {
    maxLength: 24,
  });
  const own = fc.constantFrom("for=1.2.3.4", 'for="1.2.3.4:80"', 'by="_a\\"b,";for=1.2.3.4', 'for="[::ffff:102:304]"');
  fc.assert(
    fc.property(marks, own, fc.boolean(), (left, element, hasHop) => {
      const line = `${left.join("")}, ${element}${hasHop ? ", for=10.0.0.2" : ""}`;
      return clientOf("10.0.0.1", [line]) === "1.2.3.4";
    }),
    { numRuns: 5000 },
  );
});

/** RFC 7239, 4 read from the left, as its grammar is written; null if any of it does not follow. */
function fromTheLeft(line: string): string[][] | null {
  const elements: string[][] = [[]];
  let rest = line;
  while (rest !== "") {
    const match = /^[ \t]*([\w.-]+)=([\w.-]+|"(?:[^"\\]|\\.)*")[ \t]*(,|;|$)/.exec(rest);
    if (match === null) return null;
    elements.at(-1)?.push(`${match[1]?.toLowerCase()}=${match[2]?.replace(/^"|"$/g, "").replace(/\\(.)/g, "$1")}`);
    if (match[3] === ",") elements.push([]);
    rest = rest.slice(match[0].length);
  }
  return elements;
}

test("what is well-formed reads the same from either end", () => {
  const quoted = fc
    .array(fc.constantFrom("a", ",", ";", "=", "for=6.6.6.6", '\\"', "\\\\", "\\,", " "), { maxLength: 6 })
    .map((parts) => `"${parts.join("")}"`);
  const other = fc
    .tuple(fc.constantFrom("by", "host", "proto"), fc.oneof(quoted, fc.constant("_b")))
    .map((p) => p.join("="));
  const element = fc.tuple(fc.ipV4(), fc.option(other), fc.boolean()).map(([address, pair, isFirst]) => {
    const own = `for=${address}`;
    return pair === null ? own : isFirst ? `${own};${pair}` : `${pair};${own}`;
  });
  fc.assert(
    fc.property(fc.array(element, { minLength: 1, maxLength: 4 }), (elements) => {
      const line = elements.join(", ");
      const expected = fromTheLeft(line)?.map((pairs) => pairs.find((pair) => pair.startsWith("for="))?.slice(4));
      expect(read(line)).toEqual(expected?.reverse());
    }),
    { numRuns: 3000 },
  );
});

test("never throws, and never goes on behind what it cannot read", () => {
  fc.assert(
    fc.property(
      fc.oneof(
        fc.string(),
        fc.array(fc.constantFrom('"', "\\", ",", "for=1.1.1.1", ";")).map((p) => p.join("")),
      ),
      (line) => {
        const found = read(line);
        return found.slice(0, -1).every((address) => address !== undefined);
      },
    ),
    { numRuns: 5000 },
  );
});

test.each([
  ["elements", "for=10.0.0.2,".repeat(4000)],
  ["marks", '"'.repeat(16_000)],
  ["escaped marks", `x="${'\\"'.repeat(8000)}`],
  ["backslashes", `${"\\".repeat(16_000)}"`],
  ["blanks", `a=b;${" ".repeat(16_000)}@`],
  ["blanks behind a pair", `a=b${" ".repeat(16_000)}@`],
  ["pairs", "a=b;".repeat(4000)],
  ["open strings", '="'.repeat(8000)],
])("16 KiB of %s are read quickly", (_, line) => {
  const readOften = (): void => {
    for (let i = 0; i < 20; i += 1) read(line);
  };
  expect(cpuMsOf(readOften)).toBeLessThan(1_000);
});
