// Seeds and tokens of what a client sends to the TLS port before its first key: a ClientHello (RFC 8446, 4.1.2).
import { type ContentPart, type Part, sized, text } from "./input.ts";
import type { Dictionary } from "./mutate.ts";

const bytes = (hex: string): string => Buffer.from(hex, "hex").toString("latin1");
const extension = (type: string, of: string): ContentPart => sized("u16", bytes(type), bytes(of));

const signatures = "002809050906090404030503060308070808081a081b081c0809080a080b080408050806040105010601";
const key = "a84626ab656641c818982f1e993ae803d1e81ea9cef718591ad4bf94bb27e44b";

const extensions: readonly ContentPart[] = [
  extension("0000", "000c0000096c6f63616c686f7374"),
  extension("000b", "03000102"),
  extension("000a", "0002001d"),
  extension("0023", ""),
  extension("0010", "0003026832"),
  extension("0016", ""),
  extension("0017", ""),
  extension("000d", signatures),
  extension("002b", "020304"),
  extension("002d", "0101"),
  extension("0033", `0024001d0020${key}`),
];

function hello(ciphers: string, those: readonly ContentPart[]): Part {
  const beginning = text(`${bytes("0303")}${"r".repeat(32)} ${"s".repeat(32)}`);
  const offered = [beginning, sized("u16", "", bytes(ciphers)), text("\x01\0"), sized("u16", "", those)];
  return sized("u16", bytes("160301"), [sized("u24", "\x01", offered)]);
}

const modern = hello("130113021303c02b", extensions);
const older = hello("c02bc02f", extensions.slice(0, 8));

export const tlsSeeds: readonly (readonly Part[])[] = [
  [modern],
  [older],
  [modern, text(bytes("140303000101"))],
  [text(bytes("1503010002022a"))],
  [text("GET / HTTP/1.1\r\n\r\n")],
];

export const tlsDictionary: Dictionary = {
  outer: [modern, older, sized("u16", bytes("170303"), "x"), sized("u16", bytes("160303"), "\x01"), text("\x16")],
  inner: [
    ...extensions,
    extension("0029", "0000"),
    extension("002c", "0000"),
    extension("0033", `0024001d0020${key}0024001d0020${key}`),
    ...["13011302", "c02b", "0000", "00", "ff", "0403", "001d", "0017", "0018", "0304", "026832"].map((hex) =>
      text(bytes(hex)),
    ),
  ],
};

/** Ends with the server's first flight. */
export const ordinaryHello: readonly Part[] = [modern];
