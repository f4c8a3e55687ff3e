import fc from "fast-check";
import { describe, expect, test, vi } from "vitest";
import { type ClientAddressRules, parseForwardedAddress, readClient, readPeer } from "../../src/core/client-address.ts";
import { CounterKey } from "../../src/core/counter-key.ts";
import { formatIpAddress, parseCidr, parseIpAddress } from "../../src/core/ip-address.ts";
import { NetworkSet } from "../../src/core/network-set.ts";

const network = (text: string) => {
  const cidr = parseCidr(text);
  if (cidr === undefined) throw new Error(`the test wrote ${text}`);
  return cidr;
};

const trusting = (...networks: string[]): ClientAddressRules => ({
  header: "x-forwarded-for",
  trustedProxies: new NetworkSet(networks.map(network)),
  ipv6Prefix: 64,
});

const rules = trusting("10.0.0.0/8", "2001:db8:ffff::/48", "192.0.2.7");

/** The key charged for a connection from `peer` with these lines of X-Forwarded-For. */
function clientOf(peer: string, lines: readonly string[], under = rules): string {
  const rawHeaders = lines.flatMap((line, i) => ["Accept", "*/*", i % 2 ? "x-forwarded-for" : "X-Forwarded-For", line]);
  return readClient(readPeer(peer, under), [...rawHeaders, "Host", "api"], under).client.key;
}

describe("behind a trusted proxy, the walk from the right", () => {
  test.each<[claim: string, lines: string[], client: string]>([
    ["without the header: the peer", [], "10.0.0.1"],
    ["one address", ["1.2.3.4"], "1.2.3.4"],
    ["the last untrusted one, never the leftmost", ["6.6.6.6, 1.2.3.4"], "1.2.3.4"],
    ["past trusted ones", ["6.6.6.6, 1.2.3.4, 10.0.0.2, 10.9.9.9"], "1.2.3.4"],
    ["past trusted IPv6 ones", ["1.2.3.4, 2001:db8:ffff::5, 192.0.2.7"], "1.2.3.4"],
    ["several lines are one list", ["6.6.6.6", "1.2.3.4", "10.0.0.2"], "1.2.3.4"],
    ["several lines, several in each", ["6.6.6.6, 7.7.7.7", "8.8.8.8, 1.2.3.4", "10.0.0.2,10.0.0.3"], "1.2.3.4"],
    ["all trusted: the leftmost", ["10.0.0.5, 10.0.0.6", "10.0.0.7"], "10.0.0.5"],
    ["a port is dropped", ["1.2.3.4:56789"], "1.2.3.4"],
    ["a port on a trusted one", ["1.2.3.4, 10.0.0.2:80"], "1.2.3.4"],
    ["brackets are dropped", ["[2001:db8::1]"], "2001:db8::/64"],
    ["brackets and port", ["6.6.6.6, [2001:db8::1]:443, [2001:db8:ffff::1]:80"], "2001:db8::/64"],
    ["a bare IPv6 address has no port", ["2001:db8::1:443"], "2001:db8::/64"],
    ["mapped is IPv4", ["::ffff:1.2.3.4"], "1.2.3.4"],
    ["a mapped trusted one is trusted", ["1.2.3.4, ::ffff:a00:2"], "1.2.3.4"],
    ["a zone is dropped", ["fe80::1%eth0"], "fe80::/64"],
    ["garbage ends the walk at the last good address", ["1.2.3.4, garbage, 10.0.0.2"], "10.0.0.2"],
    ["garbage at the right end: the peer", ["1.2.3.4, garbage"], "10.0.0.1"],
    ["garbage left of the client does not matter", ["<script>, 1.2.3.4"], "1.2.3.4"],
    ["garbage in a line further left does not matter", ["garbage", "1.2.3.4"], "1.2.3.4"],
    ["garbage in a line further right ends the walk", ["1.2.3.4", "garbage, 10.0.0.3"], "10.0.0.3"],
    ["unknown is no address", ["1.2.3.4, unknown"], "10.0.0.1"],
    ["an obfuscated identifier is no address", ["1.2.3.4, _hidden, 10.0.0.2"], "10.0.0.2"],
    ["a shortened address is no address", ["6.6.6.6, 1.2.3, 10.0.0.2"], "10.0.0.2"],
    ["a leading zero is no address", ["6.6.6.6, 010.0.0.9"], "10.0.0.1"],
    ["a list without commas is no address", ["6.6.6.6 1.2.3.4"], "10.0.0.1"],
    ["a host name is no address", ["1.2.3.4, proxy.internal"], "10.0.0.1"],
    ["Forwarded's syntax is no address", ["for=1.2.3.4"], "10.0.0.1"],
    ["IPv4 in brackets is an address", ["6.6.6.6, [1.2.3.4]"], "1.2.3.4"],
    ["IPv6 and a port without brackets", ["6.6.6.6, 2001:db8::7:50718"], "2001:db8::/64"],
    ["a trusted one with a port, without brackets", ["1.2.3.4, 2001:db8:ffff::5:50718"], "1.2.3.4"],
    ["an open bracket is no address", ["6.6.6.6, [2001:db8::1"], "10.0.0.1"],
    ["a port that is none ends the walk", ["6.6.6.6, 1.2.3.4:http"], "10.0.0.1"],
    ["empty elements are no elements", [" , 1.2.3.4, , ,, 10.0.0.2 ,"], "1.2.3.4"],
    ["an empty line is no element", ["1.2.3.4", "", " "], "1.2.3.4"],
    ["a no-break space is no white space", ["6.6.6.6, 10.0.0.2\xa0"], "10.0.0.1"],
    ["white space around is dropped", ["\t 1.2.3.4 \t,\t10.0.0.2\t"], "1.2.3.4"],
  ])("%s", (_, lines, client) => {
    expect(clientOf("10.0.0.1", lines)).toBe(client);
  });
});

describe("headers from an untrusted peer are ignored", () => {
  test.each([
    ["1.1.1.1", "1.1.1.1"],
    ["::ffff:1.1.1.1", "1.1.1.1"],
    ["2001:db8::9", "2001:db8::/64"],
    ["11.0.0.1", "11.0.0.1"],
  ])("from %s", (peer, client) => {
    for (const line of ["6.6.6.6", "10.0.0.1", "6.6.6.6, 10.0.0.1", "garbage", ""]) {
      expect(clientOf(peer, [line, line])).toBe(client);
    }
  });

  test("and by default nobody is trusted, not even this machine", () => {
    expect(clientOf("127.0.0.1", ["6.6.6.6"], trusting())).toBe("127.0.0.1");
    expect(clientOf("::1", ["6.6.6.6"], trusting())).toBe("::/64");
  });

  test("whatever they say, one peer is one client", () => {
    fc.assert(
      fc.property(fc.array(fc.oneof(fc.ipV4(), fc.ipV6(), fc.string()), { maxLength: 6 }), (entries) => {
        return clientOf("1.1.1.1", [entries.join(", ")]) === "1.1.1.1";
      }),
      { numRuns: 1000 },
    );
  });
});

test("other headers that name clients are never read", () => {
  const names = ["X-Real-IP", "Forwarded", "X_Forwarded_For", "X-Forwarded-For2", "True-Client-IP", "CF-Connecting-IP"];
  const rawHeaders = names.flatMap((name) => [name, "6.6.6.6"]);
  expect(readClient(readPeer("10.0.0.1", rules), rawHeaders, rules).client.key).toBe("10.0.0.1");
});

test("what a client writes on the left never changes whom its trusted proxy charges", () => {
  const written = fc.array(fc.oneof(fc.ipV4(), fc.constantFrom("10.0.0.1", "garbage", "", "unknown", "[::1]")), {
    maxLength: 8,
  });
  fc.assert(
    fc.property(written, fc.boolean(), (left, isOwnLine) => {
      const lines = isOwnLine ? [left.join(", "), "1.2.3.4, 10.0.0.2"] : [[...left, "1.2.3.4", "10.0.0.2"].join(",")];
      return clientOf("10.0.0.1", lines) === "1.2.3.4";
    }),
    { numRuns: 1000 },
  );
});

describe("the walk is bounded", () => {
  const trusted = (count: number) => Array.from({ length: count }, (_, i) => `10.0.${i}.2`);

  test("past 99 trusted proxies the client is found, and behind 100 the last of them is charged", () => {
    expect(clientOf("10.0.0.1", [["6.6.6.6", ...trusted(99)].join(", ")])).toBe("6.6.6.6");
    expect(clientOf("10.0.0.1", ["6.6.6.6", ...trusted(99)])).toBe("6.6.6.6");
    expect(clientOf("10.0.0.1", [["6.6.6.6", ...trusted(100)].join(", ")])).toBe("10.0.0.2");
    expect(clientOf("10.0.0.1", ["6.6.6.6", ...trusted(100)])).toBe("10.0.0.2");
    expect(clientOf("10.0.0.1", [`6.6.6.6${",".repeat(100)}`])).toBe("10.0.0.1");
  });

  test("a header of 8,000 entries costs no more than 100 searches among the networks", () => {
    const has = vi.spyOn(NetworkSet.prototype, "has");
    clientOf("10.0.0.1", [`6.6.6.6,${"10.0.0.2,".repeat(8000)}`]);
    // One for the peer; the comma at the end makes an empty element, which counts too.
    expect(has).toHaveBeenCalledTimes(100);
    has.mockRestore();
  });
});

describe("an entry is an address with or without a port", () => {
  test.each([
    ["1.2.3.4", "1.2.3.4"],
    ["1.2.3.4:1", "1.2.3.4"],
    ["[::1]", "::1"],
    ["[::1]:65535", "::1"],
    ["[fe80::1%eth0]:1", "fe80::1"],
    ["::1", "::1"],
    ["[::ffff:1.2.3.4]:80", "1.2.3.4"],
  ])("%s", (entry, text) => {
    const address = parseForwardedAddress(entry);
    expect(address && formatIpAddress(address)).toBe(text);
  });

  test.each([
    "",
    ":",
    ":80",
    "1.2.3.4:",
    "1.2.3.4:123456",
    "1.2.3.4:80:80",
    "[]",
    "[]:80",
    "[::1]80",
    "[::1]:",
    "[::1]:x",
    "[[::1]]",
    "::1]",
    '"1.2.3.4"',
    "1.2.3.4 :80",
  ])("%j is none", (entry) => {
    expect(parseForwardedAddress(entry)).toBeUndefined();
  });
});

describe("the client", () => {
  test("is the peer itself if its peer is not trusted or names nobody, so that its key is made once", () => {
    const stranger = readPeer("1.2.3.4", rules);
    expect(readClient(stranger, ["X-Forwarded-For", "6.6.6.6"], rules).client).toBe(stranger);
    const proxy = readPeer("10.0.0.1", rules);
    expect(readClient(proxy, ["X-Forwarded-For", "unknown"], rules).client).toBe(proxy);
  });

  test.each([
    ["1.1.1.1", "garbage", false],
    ["10.0.0.1", "1.2.3.4", false],
    ["10.0.0.1", "garbage, 1.2.3.4", false],
    ["10.0.0.1", "", false],
    ["10.0.0.1", "10.0.0.2", false],
    ["10.0.0.1", "garbage", true],
    ["10.0.0.1", "1.2.3.4, garbage, 10.0.0.2", true],
  ])("named by %s as %j is unread: %s", (peer, line, isUnread) => {
    expect(readClient(readPeer(peer, rules), ["X-Forwarded-For", line], rules).isUnread).toBe(isUnread);
  });

  test("whom a trusted proxy names has its own key", () => {
    expect(readClient(readPeer("10.0.0.1", rules), ["X-Forwarded-For", "2001:db8::1"], rules).client).toEqual({
      key: "2001:db8::/64",
      counterKey: new CounterKey(0x20010db8, 0, 0, 0, true),
    });
  });
});

describe("the peer", () => {
  test("has one spelling, and is charged as what it is", () => {
    expect(readPeer("::ffff:10.0.0.1", rules)).toEqual({
      address: parseIpAddress("10.0.0.1"),
      text: "10.0.0.1",
      isTrusted: true,
      mayBeProxy: false,
      key: "10.0.0.1",
      counterKey: new CounterKey(0, 0, 0xffff, 0x0a000001, true),
      rules,
    });
    expect(readPeer("2001:DB8::0:5%eth0", rules)).toMatchObject({
      text: "2001:db8::5",
      isTrusted: false,
      key: "2001:db8::/64",
      counterKey: new CounterKey(0x20010db8, 0, 0, 0, true),
    });
  });

  test("of a socket that is already gone is ::, which is not trusted", () => {
    for (const gone of [undefined, "", "not an address"]) {
      expect(readPeer(gone, rules)).toMatchObject({ text: "::", isTrusted: false });
    }
  });
});
