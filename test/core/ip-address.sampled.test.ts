import { BlockList, isIP } from "node:net";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { clientKey, formatIpAddress, isWithin, parseCidr, parseIpAddress } from "../../src/core/ip-address.ts";
import { runs } from "../support/runs.ts";

const keyOf = (text: string, ipv6Prefix = 128): string | undefined => {
  const address = parseIpAddress(text);
  return address && clientKey(address, ipv6Prefix);
};

describe("every spelling of one address is one key", () => {
  test.each([
    ["1.2.3.4", ["1.2.3.4", "::ffff:1.2.3.4", "::FFFF:1.2.3.4", "::ffff:102:304", "0:0:0:0:0:ffff:0102:0304"]],
    ["0.0.0.0", ["0.0.0.0", "::ffff:0:0", "::ffff:0.0.0.0"]],
    ["255.255.255.255", ["255.255.255.255", "::ffff:ffff:ffff"]],
    ["2001:db8::1", ["2001:db8::1", "2001:DB8::1", "2001:0db8:0:0:0:0:0:1", "2001:db8:0::0:1", "2001:db8::0.0.0.1"]],
    ["fe80::1", ["fe80::1", "fe80::1%eth0", "FE80::1%2", "fe80:0::1%any,thing"]],
    ["::", ["::", "0::", "::0", "0:0:0:0:0:0:0:0", "::0.0.0.0"]],
    ["::1", ["::1", "0:0:0:0:0:0:0:1"]],
    ["::102:304", ["::1.2.3.4", "::102:304"]], // not a mapped address
    ["::fffe:102:304", ["::fffe:1.2.3.4"]],
    ["1:2:3:4:5:6:7:0", ["1:2:3:4:5:6:7::", "1:2:3:4:5:6:7:0"]],
    ["0:2:3:4:5:6:7:8", ["::2:3:4:5:6:7:8", "0:2:3:4:5:6:7:8"]],
    ["1::4:0:0:7:8", ["1:0:0:4:0:0:7:8"]], // the first of two equal runs
    ["1:0:3::8", ["1:0:3:0:0:0:0:8"]], // the longer run
  ])("%s", (key, spellings) => {
    for (const spelling of spellings) expect(keyOf(spelling), spelling).toBe(key);
  });
});

test.each([
  "",
  " ",
  "1.2.3",
  "1.2.3.4.5",
  "1.2.3.",
  ".1.2.3",
  "1..2.3",
  "1.2.3.256",
  "01.2.3.4",
  "1.2.3.04",
  "1.2.3.00",
  "0x1.2.3.4",
  "1.2.3.4 ",
  " 1.2.3.4",
  "1.2.3.-4",
  "1.2.3.+4",
  "1.2.3.1e1",
  "16909060",
  "1.2.3.4/32",
  "1.2.3.4%eth0",
  "1.2.3.4:80",
  "١.2.3.4",
  "localhost",
  "unknown",
  ":",
  ":::",
  "::1::",
  "1::2::3",
  ":1:2:3:4:5:6:7:8",
  "1:2:3:4:5:6:7:8:",
  ":1::2",
  "1::2:",
  "1:2:3:4:5:6:7",
  "1:2:3:4:5:6:7:8:9",
  "1:2:3:4:5:6:7:8::",
  "::1:2:3:4:5:6:7:8",
  "1::2:3:4:5:6:7:8",
  "::00001",
  "::g",
  "::-1",
  "::1.2.3",
  "::1.2.3.04",
  "::1.2.3.256",
  "1.2.3.4::",
  "::1.2.3.4:5",
  "::1.2.3.4:1.2.3.4",
  "1:2:3:4:5:6:7:1.2.3.4",
  "[::1]",
  "::1/128",
  "%eth0",
])("%j is no address", (text) => {
  expect(parseIpAddress(text)).toBeUndefined();
});

const groups = fc.array(fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 0xffff })), { minLength: 8, maxLength: 8 });

/** The spelling that the URL standard prescribes, which is RFC 5952's but for mapped addresses. */
function urlSpelling(address: readonly number[]): string {
  const text = address.map((group) => group.toString(16)).join(":");
  return new URL(`http://[${text}]`).hostname.slice(1, -1);
}

/** One of the many ways to write an address, chosen by bits. */
function respell(address: readonly number[], choice: number): string {
  const write = (group: number, i: number): string => {
    const hex = group.toString(16).padStart(1 + ((choice >> (i % 3)) & 3), "0");
    return (choice >> (i + 4)) & 1 ? hex.toUpperCase() : hex;
  };
  const isDotted = (choice & 64) !== 0;
  const [high = 0, low = 0] = address.slice(6);
  const dotted = `${high >> 8}.${high & 255}.${low >> 8}.${low & 255}`;
  const parts = isDotted ? [...address.slice(0, 6).map(write), dotted] : address.map(write);
  const hexCount = isDotted ? 6 : 8;
  // Any run of zero groups may be left out, the longest or not, one group or more.
  const zeros = address.slice(0, hexCount).flatMap((group, i) => (group === 0 ? [i] : []));
  const start = zeros[choice % (zeros.length || 1)];
  const zone = choice & 128 ? "%eth0" : "";
  if (start === undefined || choice & 256) return parts.join(":") + zone;
  let end = start + 1;
  while (end < hexCount && address[end] === 0 && (choice >> end) & 1) end += 1;
  return `${parts.slice(0, start).join(":")}::${parts.slice(end).join(":")}${zone}`;
}

test("10,000 addresses in any spelling have the key that the URL standard's serialiser gives them", () => {
  fc.assert(
    fc.property(groups, fc.nat({ max: 0xfff_ffff }), (address, choice) => {
      const spelling = respell(address, choice);
      if (isIP(spelling) !== 6) throw new Error(`the test wrote ${spelling}`);
      const key = keyOf(spelling);
      if (keyOf(spelling, 64) !== keyOf(formatIpAddress(address), 64)) return false;
      if (address.slice(0, 5).every((group) => group === 0) && address[5] === 0xffff)
        return key?.includes(".") === true;
      return key === urlSpelling(address);
    }),
    runs(10_000),
  );
});

test("10,000 IPv4 addresses have one key, dotted or mapped", () => {
  fc.assert(
    fc.property(fc.ipV4(), (dotted) => {
      const [a = 0, b = 0, c = 0, d = 0] = dotted.split(".").map(Number);
      const hex = `::ffff:${(a * 256 + b).toString(16)}:${(c * 256 + d).toString(16)}`;
      return keyOf(dotted) === dotted && keyOf(`::ffff:${dotted}`) === dotted && keyOf(hex, 64) === dotted;
    }),
    runs(10_000),
  );
});

test("accepts what node:net takes for an address, and nothing else", () => {
  const nearly = fc.oneof(
    fc
      .array(fc.constantFrom("0", "1", "ff", "255", "256", "12345", ":", "::", ".", "g", "00"), { maxLength: 17 })
      .map((parts) => parts.join("")),
    fc
      .array(fc.constantFrom("0", "1", "01", "255", "256", ""), { minLength: 3, maxLength: 5 })
      .map((parts) => parts.join(".")),
    fc
      .tuple(fc.ipV6(), fc.nat({ max: 40 }), fc.constantFrom("", ":", "0", "."))
      .map(([text, at, inserted]) => text.slice(0, at) + inserted + text.slice(at)),
  );
  fc.assert(
    fc.property(nearly, (text) => (parseIpAddress(text) !== undefined) === (isIP(text) !== 0)),
    runs(20_000),
  );
});

test("what is formatted is read back as the same address", () => {
  fc.assert(
    fc.property(groups, (address) => {
      expect(parseIpAddress(formatIpAddress(address))).toEqual(address);
    }),
    runs(2000),
  );
});

describe("networks", () => {
  test.each([
    ["10.0.0.0/8", "10.255.255.255", true],
    ["10.0.0.0/8", "11.0.0.0", false],
    ["10.0.0.0/8", "::ffff:10.1.2.3", true],
    ["10.1.2.3/8", "10.9.9.9", true], // bits beyond the prefix do not matter
    ["::ffff:10.0.0.0/104", "10.1.2.3", true],
    ["192.168.1.0/25", "192.168.1.127", true],
    ["192.168.1.0/25", "192.168.1.128", false],
    ["0.0.0.0/0", "255.1.2.3", true],
    ["0.0.0.0/0", "2001:db8::1", false],
    ["127.0.0.1", "127.0.0.1", true],
    ["127.0.0.1", "127.0.0.2", false],
    ["127.0.0.1/32", "127.0.0.2", false],
    ["2001:db8::/32", "2001:db8:ffff::1", true],
    ["2001:db8::/32", "2001:db9::1", false],
    ["2001:db8::/33", "2001:db8:7fff::", true],
    ["2001:db8::/33", "2001:db8:8000::", false],
    ["2001:db8::1", "2001:db8::1", true],
    ["2001:db8::1", "2001:db8::2", false],
    ["fe80::/10", "febf::1%eth0", true],
    ["fe80::/10", "fec0::1", false],
    ["::/0", "2001:db8::1", true],
  ])("%s and %s: %s", (network, text, expected) => {
    const cidr = parseCidr(network);
    const address = parseIpAddress(text);
    expect(cidr && address && isWithin(address, cidr)).toBe(expected);
  });

  test.each([
    "",
    "/",
    "/8",
    "10.0.0.0/",
    "10.0.0.0/33",
    "10.0.0.0/-1",
    "10.0.0.0/+8",
    "10.0.0.0/8.0",
    "10.0.0.0/ 8",
    "10.0.0.0/255.0.0.0",
    "10.0.0.0/8/8",
    "10.0.0/8",
    "010.0.0.0/8",
    "::/129",
    "::/0128",
    "fe80::%eth0/10",
    "all",
  ])("%j is no network", (text) => {
    expect(parseCidr(text)).toBeUndefined();
  });

  test("an address is in a network exactly when node:net's BlockList says so", () => {
    // Few different groups, so that addresses often share a prefix with the network.
    const near = fc.array(fc.constantFrom(0, 1, 0x7fff, 0x8000, 0xffff), { minLength: 8, maxLength: 8 });
    fc.assert(
      fc.property(near, near, fc.nat({ max: 128 }), fc.boolean(), (networkGroups, addressGroups, bits, isIpv4Case) => {
        const toIpv4 = (numbers: number[]) => formatIpAddress([0, 0, 0, 0, 0, 0xffff, ...numbers.slice(6)]);
        const toText = (numbers: number[]) => (isIpv4Case ? toIpv4(numbers) : formatIpAddress(numbers));
        const family = (text: string) => (isIP(text) === 4 ? "ipv4" : "ipv6");
        const [network, text] = [toText(networkGroups), toText(addressGroups)];
        const prefix = family(network) === "ipv4" ? bits % 33 : bits;
        const oracle = new BlockList();
        oracle.addSubnet(network, prefix, family(network));
        const cidr = parseCidr(`${network}/${prefix}`);
        const address = parseIpAddress(text);
        expect(cidr && address && isWithin(address, cidr)).toBe(oracle.check(text, family(text)));
      }),
      runs(5000),
    );
  });
});

describe("the key of an IPv6 client", () => {
  test.each([
    ["2001:db8:1:2:3:4:5:6", 64, "2001:db8:1:2::/64"],
    ["2001:db8:1:2:ffff:ffff:ffff:ffff", 64, "2001:db8:1:2::/64"],
    ["2001:db8:1:3::", 64, "2001:db8:1:3::/64"],
    ["2001:db8:1:2:3:4:5:6", 56, "2001:db8:1::/56"],
    ["2001:db8:1:1ff::", 56, "2001:db8:1:100::/56"],
    ["2001:db8:1:2:3:4:5:6", 128, "2001:db8:1:2:3:4:5:6"],
    ["2001:db8:1:2:3:4:5:7", 127, "2001:db8:1:2:3:4:5:6/127"],
    ["ffff::", 1, "8000::/1"],
    ["fe80::1%eth0", 64, "fe80::/64"],
    ["::1", 64, "::/64"],
    ["1.2.3.4", 64, "1.2.3.4"],
    ["::ffff:1.2.3.4", 1, "1.2.3.4"],
  ])("%s by %d bits is %s", (text, prefix, key) => {
    expect(keyOf(text, prefix)).toBe(key);
  });

  test("is shared by exactly the addresses of one network", () => {
    fc.assert(
      fc.property(groups, groups, fc.integer({ min: 1, max: 128 }), fc.nat({ max: 8 }), (one, tail, prefix, kept) => {
        const other = [...one.slice(0, kept), ...tail.slice(kept)];
        const [a, b] = [formatIpAddress(one), formatIpAddress(other)];
        if (isIP(a) === 4 || isIP(b) === 4) return true;
        const network = new BlockList();
        network.addSubnet(a, prefix, "ipv6");
        return (keyOf(a, prefix) === keyOf(b, prefix)) === network.check(b, "ipv6");
      }),
      runs(5000),
    );
  });
});
