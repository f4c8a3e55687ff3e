// TLS of connections that the gateway opens, to the upstream and to a shared store: the keys that both have, and what
// contradicts them.
import { parseHost } from "./addresses.ts";
import { filePath, orNull, text } from "./leaves.ts";
import type { Refuse } from "./written.ts";

/** `peer`: what the connections lead to. `host`: what its name is otherwise. */
export function clientTls(peer: string, host: string) {
  const expected = "a host name or an IP address (without brackets)";
  const name = `Name for SNI and for the verification of the certificate; null uses ${host}.`;
  return {
    ca: filePath("CA certificates in PEM to trust instead of the system's."),
    serverName: orNull(text("", { expected, parse: parseHost }, name)),
    cert: filePath(`Client certificate that the gateway presents to the ${peer}, in PEM; requires key.`),
    key: filePath("Private key of cert, in PEM, without a passphrase."),
  };
}

const names = ["ca", "serverName", "cert", "key"] as const;

/** `unused`: why the keys of `section` have no effect, as the keys of `because` say; null if they have one. */
export function judgeClientTls(
  section: string,
  tls: Readonly<Record<(typeof names)[number], string | null>>,
  unused: string | null,
  because: readonly string[],
  refuse: Refuse,
): void {
  const given = names.filter((name) => tls[name] !== null);
  if (unused !== null) {
    for (const name of given) refuse(`${section}.${name}`, `none, since ${unused}`, ...because);
    return;
  }
  for (const [missing, other] of [["cert", "key"] as const, ["key", "cert"] as const]) {
    if (tls[missing] !== null || tls[other] === null) continue;
    const key = `${section}.${other}`;
    refuse(`${section}.${missing}`, `the path of a file, since ${key} has one; name it, or remove ${key}`, key);
  }
}
