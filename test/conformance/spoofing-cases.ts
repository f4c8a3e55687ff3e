// What clients and proxies write to say, or to lie about, where a request comes from. Each row is sent to every gateway
// of spoofing.test.ts: from a peer that is nobody's proxy all of it must come to nothing, and behind a trusted one it
// must come to what the row says: `byXForwardedFor` and `byForwarded` are who is charged where that header is
// configured.

export interface Spoof {
  readonly claim: string;
  /** Field lines as they are sent. */
  readonly lines: readonly string[];
  readonly byXForwardedFor: string;
  readonly byForwarded: string;
  /** The answer, if it is not 200; then nothing may reach the upstream. */
  readonly status?: number;
  /** False if it is no HTTP. */
  readonly isParsed?: boolean;
}

/** The peer of every connection; trusted by the gateways that trust anyone, as are the networks. */
export const peer = "127.0.0.1";
export const trusted = ["127.0.0.0/8", "10.0.0.0/8", "2001:db8:ffff::/48"];

const xff = (claim: string, values: readonly string[], client: string): Spoof => ({
  claim: `X-Forwarded-For, ${claim}`,
  lines: values.map((value) => `X-Forwarded-For: ${value}`),
  byXForwardedFor: client,
  byForwarded: peer,
});

const forwarded = (claim: string, values: readonly string[], client: string): Spoof => ({
  claim: `Forwarded, ${claim}`,
  lines: values.map((value) => `Forwarded: ${value}`),
  byXForwardedFor: peer,
  byForwarded: client,
});

const other = (claim: string, lines: readonly string[], more: Partial<Spoof> = {}): Spoof => ({
  claim,
  lines,
  byXForwardedFor: peer,
  byForwarded: peer,
  ...more,
});

export const spoofs: readonly Spoof[] = [
  xff("one address", ["1.2.3.4"], "1.2.3.4"),
  xff("a forged one on the left", ["6.6.6.6, 1.2.3.4"], "1.2.3.4"),
  xff("forged trusted ones on the left", ["10.0.0.9, 127.0.0.1, 1.2.3.4"], "1.2.3.4"),
  xff("a chain of proxies", ["6.6.6.6, 1.2.3.4, 10.0.0.2, 127.0.0.3"], "1.2.3.4"),
  xff("nobody but proxies", ["10.0.0.5, 10.0.0.6"], "10.0.0.5"),
  xff("a forged line before the proxy's", ["6.6.6.6", "1.2.3.4"], "1.2.3.4"),
  xff("three lines", ["6.6.6.6, 7.7.7.7", "1.2.3.4", "10.0.0.2"], "1.2.3.4"),
  xff("a port", ["1.2.3.4:4711"], "1.2.3.4"),
  xff("an IPv6 address", ["2001:db8:1:2:3:4:5:6"], "2001:db8:1:2::/64"),
  xff("an IPv6 address in brackets", ["[2001:db8:1:2::6]"], "2001:db8:1:2::/64"),
  xff("an IPv6 address with a port", ["[2001:DB8:1:2::6]:4711"], "2001:db8:1:2::/64"),
  xff("an IPv6 address with a port and no brackets", ["2001:db8:1:2::6:50718"], "2001:db8:1:2::/64"),
  xff("nine groups", ["6.6.6.6, 2001:db8:1:2:3:4:5:6:80"], "2001:db8:1:2::/64"),
  xff("a port that is none", ["6.6.6.6, 2001:db8:1:2::6:65536"], peer),
  xff("a translated address", ["6.6.6.6, 64:ff9b::1.2.3.4"], "1.2.3.4"),
  xff("a translated trusted one, which is not trusted", ["6.6.6.6, 64:ff9b::10.0.0.2"], "64:ff9b::/64"),
  xff("another of the same /64", ["2001:db8:1:2:ffff:ffff:ffff:ffff"], "2001:db8:1:2::/64"),
  xff("a zone", ["fe80::1%eth0"], "fe80::/64"),
  xff("a zone in brackets", ["[fe80::2%25eth0]:1"], "fe80::/64"),
  xff("a mapped address", ["::ffff:1.2.3.4"], "1.2.3.4"),
  xff("a mapped address in hexadecimal", ["::ffff:102:304"], "1.2.3.4"),
  xff("a mapped address written out", ["0:0:0:0:0:FFFF:0102:0304"], "1.2.3.4"),
  xff("a mapped trusted one", ["1.2.3.4, ::ffff:10.0.0.2"], "1.2.3.4"),
  xff("a trusted IPv6 one", ["1.2.3.4, 2001:db8:ffff::5"], "1.2.3.4"),
  xff("garbage on the right", ["6.6.6.6, garbage"], peer),
  xff("garbage in the middle", ["6.6.6.6, garbage, 10.0.0.2"], "10.0.0.2"),
  xff("garbage on the left", ["garbage, 1.2.3.4"], "1.2.3.4"),
  xff("unknown", ["6.6.6.6, unknown"], peer),
  xff("an obfuscated identifier", ["6.6.6.6, _secret, 10.0.0.2"], "10.0.0.2"),
  xff("a leading zero", ["6.6.6.6, 010.0.0.2"], peer),
  xff("a shortened address", ["6.6.6.6, 10.2"], peer),
  xff("a number", ["6.6.6.6, 167772162"], peer),
  xff("a hexadecimal address", ["6.6.6.6, 0x0a.0.0.2"], peer),
  xff("a network", ["6.6.6.6, 10.0.0.0/8"], peer),
  xff("a host name", ["6.6.6.6, localhost"], peer),
  xff("quotation marks", ['"1.2.3.4"'], peer),
  xff("Forwarded's syntax", ["for=1.2.3.4"], peer),
  xff("blanks instead of commas", ["6.6.6.6 10.0.0.2"], peer),
  xff("semicolons instead of commas", ["6.6.6.6; 10.0.0.2"], peer),
  xff("empty elements", [" ,, 1.2.3.4 , ,"], "1.2.3.4"),
  xff("nothing", [""], peer),
  xff("an empty line behind", ["1.2.3.4", ""], "1.2.3.4"),
  xff("a byte above ASCII", ["6.6.6.6, 10.0.0.2\xa0"], peer),
  xff("a scheme", ["http://1.2.3.4"], peer),
  xff("a thousand forged ones", [`${"6.6.6.6,".repeat(1000)}1.2.3.4`], "1.2.3.4"),

  forwarded("one element", ["for=1.2.3.4"], "1.2.3.4"),
  forwarded("a forged one on the left", ["for=6.6.6.6, for=1.2.3.4"], "1.2.3.4"),
  forwarded("a chain of proxies", ['for=6.6.6.6, FOR="1.2.3.4:80", for=10.0.0.2;by=10.0.0.3'], "1.2.3.4"),
  forwarded("a forged line before the proxy's", ["for=6.6.6.6", "for=1.2.3.4;proto=https"], "1.2.3.4"),
  forwarded("an IPv6 address with a port", ['for="[2001:db8:1:2::1]:4711"'], "2001:db8:1:2::/64"),
  forwarded("a mapped address", ['for="[::ffff:1.2.3.4]"'], "1.2.3.4"),
  forwarded("a zone", ['for="[fe80::1%eth0]"'], "fe80::/64"),
  forwarded("a trusted IPv6 one", ['for=1.2.3.4, for="[2001:db8:ffff::1]"'], "1.2.3.4"),
  forwarded("unknown", ["for=6.6.6.6, for=unknown, for=10.0.0.2"], "10.0.0.2"),
  forwarded("an obfuscated identifier", ["for=6.6.6.6, for=_hidden"], peer),
  forwarded("no for at all", ["for=6.6.6.6, by=10.0.0.2;proto=http"], peer),
  forwarded("a mark left open by the client", ['for=6.6.6.6;x=", for=1.2.3.4'], "1.2.3.4"),
  forwarded("a mark left open before a quoted element", ['for=", for="1.2.3.4:80"'], "1.2.3.4"),
  forwarded("a comma and a forged element inside quotes", ['for=1.2.3.4;x="a, for=6.6.6.6"'], "1.2.3.4"),
  forwarded("a semicolon and a forged pair inside quotes", ['x=";for=6.6.6.6";for=1.2.3.4'], "1.2.3.4"),
  forwarded("an escaped mark before a forged element", ['for=1.2.3.4;x="\\", for=6.6.6.6"'], "1.2.3.4"),
  forwarded("for twice", ["for=6.6.6.6;for=10.0.0.2"], peer),
  forwarded("an IPv6 address without brackets", ['for="2001:db8::1"'], "2001:db8::/64"),
  forwarded("a port without quotes", ["for=1.2.3.4:80"], "1.2.3.4"),
  forwarded(
    "a forged one without quotes on the left",
    ["for=6.6.6.6:80, for=[::1]:80;host=a:1, for=1.2.3.4"],
    "1.2.3.4",
  ),
  forwarded("a port above 65535", ['for=6.6.6.6, for="2001:db8::7:65536"'], peer),
  forwarded("X-Forwarded-For's syntax", ["6.6.6.6, 1.2.3.4"], peer),
  forwarded("a parameter that ends in for", ["x-for=6.6.6.6"], peer),
  forwarded("garbage", ['=;,"'], peer),
  forwarded("nothing", [""], peer),

  other("X-Real-IP", ["X-Real-IP: 6.6.6.6"]),
  other("X-Real-IP of a trusted address", ["x-real-ip: 10.0.0.2"]),
  other("X-Client-IP, Client-IP, True-Client-IP", [
    "X-Client-IP: 6.6.6.6",
    "Client-IP: 6.6.6.6",
    "True-Client-IP: 6.6.6.6",
  ]),
  other("CF-Connecting-IP and X-Cluster-Client-IP", ["CF-Connecting-IP: 6.6.6.6", "X-Cluster-Client-IP: 6.6.6.6"]),
  other("X-Forwarded and Forwarded-For", ["X-Forwarded: for=6.6.6.6", "Forwarded-For: 6.6.6.6"]),
  other("True_Client_IP", ["True_Client_IP: 6.6.6.6"], { status: 400 }),
  other("client.ip", ["client.ip: 6.6.6.6"], { status: 400 }),
  other("HTTP_CLIENT_IP, which Java reads by this name", ["HTTP_CLIENT_IP: 6.6.6.6"], { status: 400 }),
  other("WebSphere's own fields", ["$WSRA: 6.6.6.6", "$wsrh: evil.test"]),
  other("a certificate", ["Client-Cert: :MIIB:", "Client-Cert-Chain: :MIIB:"]),
  other("names that only begin like the header", ["X-Forwarded-For2: 6.6.6.6", "X-Forwarded-Fo: 6.6.6.6"]),
  other("X-Forwarded-Host and -Proto", ["X-Forwarded-Host: evil.test", "X-Forwarded-Proto: https"]),
  other("X-Original-URL and X-Rewrite-URL", ["X-Original-URL: /v1/other", "X-Rewrite-URL: /v1/other"]),
  other("both headers, which disagree", ["X-Forwarded-For: 1.2.3.4", "Forwarded: for=5.6.7.8", "X-Real-IP: 6.6.6.6"], {
    byXForwardedFor: "1.2.3.4",
    byForwarded: "5.6.7.8",
  }),
  other("one good, the other garbage", ["X-Forwarded-For: garbage", "Forwarded: for=5.6.7.8"], {
    byForwarded: "5.6.7.8",
  }),
  other("the name in another case", ["x-fORWARDED-fOR: 1.2.3.4", "fORWARDED: for=5.6.7.8"], {
    byXForwardedFor: "1.2.3.4",
    byForwarded: "5.6.7.8",
  }),
  other("X_Forwarded_For", ["X_Forwarded_For: 6.6.6.6"], { status: 400 }),
  other("X_Forwarded-For", ["X_Forwarded-For: 6.6.6.6"], { status: 400 }),
  other("X_Real_IP", ["X_Real_IP: 6.6.6.6"], { status: 400 }),
  other("X_Forwarded_For beside the true one", ["X-Forwarded-For: 1.2.3.4", "X_Forwarded_For: 6.6.6.6"], {
    byXForwardedFor: "1.2.3.4",
    status: 400,
  }),
  other("X.Forwarded.For", ["X.Forwarded.For: 6.6.6.6"], { status: 400 }),
  other("x-forwarded.proto", ["x-forwarded.proto: https"], { status: 400 }),
  other("X+Real+IP", ["X+Real+IP: 6.6.6.6"], { status: 400 }),
  other("X.Forwarded.For beside the true one", ["X-Forwarded-For: 1.2.3.4", "X.Forwarded.For: 6.6.6.6"], {
    byXForwardedFor: "1.2.3.4",
    status: 400,
  }),
  other("a blank before the colon", ["X-Forwarded-For : 6.6.6.6"], { status: 400, isParsed: false }),
];
