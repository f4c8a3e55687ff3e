// The forms in which an address comes, by all the ways on which one comes: what each means on each way. A form that hides one
// client among many would be charged as its proxy, or as a network of others. docs/client-address.md explains the judgements.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { readRuledKey } from "../../src/commands/admin/invocation.ts";
import { parseNetwork } from "../../src/config/addresses.ts";
import { type ClientAddressRules, parseForwardedAddress, readClient, readPeer } from "../../src/core/client-address.ts";
import { cidrOf, formatCidr, formatIpAddress } from "../../src/core/ip-address.ts";
import { NetworkSet } from "../../src/core/network-set.ts";
import { NamedPeers } from "../../src/ext-auth/check.ts";
import { readKeyText } from "../../src/gateway/control/key-text.ts";
import { ProxyHeaderReader } from "../../src/listener/proxy-header.ts";
import { runs, scaled } from "../support/runs.ts";

const trusting = (header: ClientAddressRules["header"]): ClientAddressRules => ({
  header,
  trustedProxies: new NetworkSet([cidrOf("10.0.0.1")]),
  ipv6Prefix: 64,
});

/** The client that is charged for a field of a trusted proxy; "" if its value cannot be read. */
function charged(header: ClientAddressRules["header"], value: string): string {
  const rules = trusting(header);
  const { client, isUnread } = readClient(readPeer("10.0.0.1", rules), [header, value], rules);
  // Nothing at all is not unread.
  expect(isUnread).toBe(client.key === "10.0.0.1" && value !== "");
  return client.key === "10.0.0.1" ? "" : client.key;
}

/** What each way makes of a form: the client that is charged or meant; "" if it refuses the form. */
const ways = {
  xForwardedFor: (form: string) => charged("x-forwarded-for", form),
  forwarded: (form: string) => charged("forwarded", `proto=https;for="${form}"`),
  bareForwarded: (form: string) => charged("forwarded", `for=${form};host=api.example:8443`),
  proxyV1(form: string) {
    const line = `PROXY TCP${form.includes(":") ? 6 : 4} ${form} 198.51.100.1 51512 443\r\n`;
    const header = new ProxyHeaderReader().read(Buffer.from(line, "latin1"));
    return header.kind === "complete" ? readPeer(header.source ?? "", trusting("forwarded")).key : "";
  },
  check: (form: string) => new NamedPeers().find(form, trusting("x-forwarded-for"))?.key ?? "",
  /** Of `trustedProxies`, `exempt` and overrides: as it stands. */
  network(form: string) {
    const network = parseNetwork(form);
    return network === undefined ? "" : formatCidr(cidrOf(network));
  },
  /** In a call of the admin API about what is counted. */
  key(form: string) {
    const reading = readKeyText(`client:${form}`, 64);
    return reading.ok ? reading.key.value : "";
  },
  /** Whom a rule is about, on the command line: as it stands. */
  rule(form: string) {
    const named = readRuledKey(form);
    return typeof named === "string" || named.kind !== "client" ? "" : named.value;
  },
};

type Way = keyof typeof ways;

const headers = ["xForwardedFor", "forwarded", "bareForwarded", "check"] as const;

/** `everywhere`: on all ways that are not named. */
type Expected = Partial<Record<Way, string>> & { readonly everywhere?: string };

/** A form with a port, brackets or the like, which only fields have. */
const inHeaders = (client: string): Expected => ({
  ...Object.fromEntries(headers.map((way) => [way, client])),
  everywhere: "",
});

/** An IPv6 address, which is charged as its network, and stands for itself in lists and rules. */
const ipv6 = (client: string, address: string): Expected => ({ everywhere: client, network: address, rule: address });

const nowhere: Expected = { everywhere: "" };

const forms: readonly [form: string, expected: Expected][] = [
  ["192.0.2.7", { everywhere: "192.0.2.7" }],
  ["192.0.2.7:4711", inHeaders("192.0.2.7")],
  ["192.0.2.7:0", inHeaders("192.0.2.7")],
  ["[192.0.2.7]", inHeaders("192.0.2.7")],
  ["[192.0.2.7]:4711", inHeaders("192.0.2.7")],
  // Mapped, which is what a listener on :: sees of an IPv4 client.
  ["::ffff:192.0.2.7", { everywhere: "192.0.2.7" }],
  ["::FFFF:c000:207", { everywhere: "192.0.2.7" }],
  ["0:0:0:0:0:ffff:192.0.2.7", { everywhere: "192.0.2.7" }],
  ["[::ffff:192.0.2.7]:4711", inHeaders("192.0.2.7")],
  // IPv6, and a port without brackets, where no other reading is possible.
  ["2001:db8::7", ipv6("2001:db8::/64", "2001:db8::7")],
  ["2001:DB8:0:0::0007", ipv6("2001:db8::/64", "2001:db8::7")],
  ["[2001:db8::7]", inHeaders("2001:db8::/64")],
  ["[2001:db8::7]:4711", inHeaders("2001:db8::/64")],
  ["::ffff:192.0.2.7:4711", inHeaders("192.0.2.7")],
  ["::ffff:192.0.2.7:65535", inHeaders("192.0.2.7")],
  ["2001:db8:4538:1:bcf4:5264:e01c:f215:50718", inHeaders("2001:db8:4538:1::/64")],
  ["2001:db8:4538:1:bcf4:5264:e01c:f215:80", inHeaders("2001:db8:4538:1::/64")],
  ["2001:db8:cafe:0:0:0:0:17:4711", inHeaders("2001:db8:cafe::/64")],
  ["2001:db8:4538:1:bcf4:5264:192.0.2.7:80", inHeaders("2001:db8:4538:1::/64")],
  ["2001:db8::7:50718", inHeaders("2001:db8::/64")],
  ["2001:db8::7:00443", inHeaders("2001:db8::/64")],
  ["::1:50718", inHeaders("::/64")],
  ["2001:db8:::443", inHeaders("2001:db8::/64")],
  // Valid as they stand, so they are no address with a port.
  ["2001:db8::7:443", ipv6("2001:db8::/64", "2001:db8::7:443")],
  ["2001:db8:4538:1:bcf4:5264:e01c:8080", ipv6("2001:db8:4538:1::/64", "2001:db8:4538:1:bcf4:5264:e01c:8080")],
  ["::ffff:c000:207:4711", ipv6("::/64", "::ffff:c000:207:4711")],
  // Readable by nobody, or by each in another way.
  ["2001:db8::7:65536", nowhere],
  ["2001:db8::7:507181", nowhere],
  ["2001:db8::50718", nowhere],
  ["2001:db8::7:", nowhere],
  ["2001:db8::7:http", nowhere],
  ["2001:db8::7:80:50718:80", nowhere],
  ["1:2:3:4:5:6:7:8:80:50718", nowhere],
  ["192.0.2.7:80:80", nowhere],
  ["192.0.2.7:", nowhere],
  ["192.0.2.7:http", nowhere],
  ["[2001:db8::7", nowhere],
  ["2001:db8::7]:80", nowhere],
  ["[[2001:db8::7]]", nowhere],
  ["192.000.002.007", nowhere],
  ["192.0.2", nowhere],
  ["3221225991", nowhere],
  ["0xc0.0.2.7", nowhere],
  ["192.0.2.7.", nowhere],
  ["unknown", nowhere],
  ["_hidden", nowhere],
  ["_SEVKISEK", nowhere],
  ["localhost", nowhere],
  ["", nowhere],
  // An obfuscated port (RFC 7239, 6.3).
  ["192.0.2.7:_port", { forwarded: "192.0.2.7", bareForwarded: "192.0.2.7", everywhere: "" }],
  ["[2001:db8::7]:_a.b-c", { forwarded: "2001:db8::/64", bareForwarded: "2001:db8::/64", everywhere: "" }],
  // A zone names an interface of the proxy.
  ["fe80::1%eth0", { ...inHeaders("fe80::/64"), proxyV1: "fe80::/64" }],
  ["[fe80::1%eth0]:4711", inHeaders("fe80::/64")],
  ["192.0.2.7%eth0", nowhere],
  // IPv4 inside IPv6: a translator's (RFC 6052) is the IPv4 address, unless nobody may have it there.
  ["64:ff9b::192.0.2.7", ipv6("192.0.2.7", "64:ff9b::c000:207")],
  ["64:ff9b::c000:207", ipv6("192.0.2.7", "64:ff9b::c000:207")],
  ["0064:FF9B:0:0:0:0:192.0.2.7", ipv6("192.0.2.7", "64:ff9b::c000:207")],
  ["[64:ff9b::192.0.2.7]:443", inHeaders("192.0.2.7")],
  ["64:ff9b::192.0.2.7:443", inHeaders("192.0.2.7")],
  ...["10.9.9.9", "172.16.0.1", "172.31.255.255", "192.168.1.1", "127.0.0.1", "169.254.169.254"].map(
    (inner): [string, Expected] => {
      const address = formatIpAddress(cidrOf(`64:ff9b::${inner}`).network);
      return [`64:ff9b::${inner}`, ipv6("64:ff9b::/64", address)];
    },
  ),
  ["64:ff9b::172.15.255.255", ipv6("172.15.255.255", "64:ff9b::ac0f:ffff")],
  ["64:ff9b::172.32.0.0", ipv6("172.32.0.0", "64:ff9b::ac20:0")],
  // Not that prefix: a network's own translator (RFC 8215), and neighbours of it.
  ["64:ff9b:1::192.0.2.7", ipv6("64:ff9b:1::/64", "64:ff9b:1::c000:207")],
  ["64:ff9b::1:192.0.2.7", ipv6("64:ff9b::/64", "64:ff9b::1:c000:207")],
  ["64:ff9a::192.0.2.7", ipv6("64:ff9a::/64", "64:ff9a::c000:207")],
  // Compatible, translated (RFC 2765), 6to4 and Teredo addresses: anybody can make them up, so they stand for themselves.
  ["::192.0.2.7", ipv6("::/64", "::c000:207")],
  ["::ffff:0:192.0.2.7", ipv6("::/64", "::ffff:0:c000:207")],
  ["2002:c000:207::1", ipv6("2002:c000:207::/64", "2002:c000:207::1")],
  ["2001:0:4136:e378:8000:63bf:3fff:fdf8", ipv6("2001:0:4136:e378::/64", "2001:0:4136:e378:8000:63bf:3fff:fdf8")],
];

describe.each(forms)("%j", (form, { everywhere = "", ...expected }) => {
  test.each(Object.keys(ways) as Way[])("by %s", (way) => {
    expect(ways[way](form)).toBe(expected[way] ?? everywhere);
  });
});

test.each([
  ["blanks and tabs around", "\t 2001:db8::7:50718 \t", "2001:db8::/64"],
  ["commas at the end", "2001:db8::7:50718, ,,", "2001:db8::/64"],
  ["a trusted proxy with a port at the right", "2001:db8::7:50718,10.0.0.1:80", "2001:db8::/64"],
  ["quotation marks, which only Forwarded has", '"2001:db8::7"', ""],
  ["a blank within", "2001:db8::7 :50718", ""],
])("in X-Forwarded-For, %s", (_, line, client) => {
  expect(charged("x-forwarded-for", line)).toBe(client);
});

/** Reads a form by trying all that it may be: an address, or one of the two ways to add a port. */
function naive(form: string): string | undefined {
  const readings = new Set<string>();
  const add = (text: string): void => {
    const address = URL.canParse(`http://[${text}]`) ? new URL(`http://[${text}]`).hostname : undefined;
    if (address !== undefined) readings.add(address);
  };
  add(form);
  if (readings.size === 0) {
    const [, address = "", port = ""] = /^(.*):(\d{1,5})$/s.exec(form) ?? [];
    if (port !== "" && Number(port) <= 65_535) add(address);
  }
  return [...readings][0];
}

test("an IPv6 address, with or without a port, is what a naive reader makes of it", () => {
  const group = fc.oneof(
    { weight: 5, arbitrary: fc.nat({ max: 0xffff }).map((each) => each.toString(16)) },
    { weight: 2, arbitrary: fc.constantFrom("", "0", "ffff", "64", "443", "192.0.2.7", "10") },
    { weight: 1, arbitrary: fc.nat({ max: 99_999 }).map(String) },
  );
  // Most have the size of an address, with a port or without.
  const sizes = fc.oneof(fc.constantFrom(8, 9), fc.integer({ min: 2, max: 11 }));
  const lists = sizes.chain((size) => fc.array(group, { minLength: size, maxLength: size }));
  let read = 0;
  fc.assert(
    fc.property(lists, (groups) => {
      const form = groups.join(":");
      // An IPv4 address with a port is read otherwise.
      fc.pre(groups.length > 2 || !form.includes("."));
      const address = parseForwardedAddress(form);
      if (address !== undefined) read += 1;
      const hex = address?.map((each) => each.toString(16)).join(":");
      expect(hex && new URL(`http://[${hex}]`).hostname).toBe(naive(form));
    }),
    runs(10_000),
  );
  expect(read).toBeGreaterThan(scaled(500));
});
