// Kinds of values that name a place in the network, for whichever section needs one.
import { parseHost, parseNetwork } from "./addresses.ts";
import type { Leaf } from "./definition.ts";
import { text } from "./leaves.ts";

export function host(byDefault: string, description: string): Leaf<string> {
  return text(
    byDefault,
    { expected: "an IP address (without brackets) or a host name", parse: parseHost },
    description,
  );
}

export const network: Leaf<string> = text(
  "",
  { expected: 'an IP address or a network such as "10.0.0.0/8"', parse: parseNetwork },
  "An IPv4 or IPv6 address, or a network in CIDR notation.",
);
