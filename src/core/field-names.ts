// The names of request fields that mean something to the gateway, and the names that a server behind it may take for one of
// them. CGI, WSGI and Rack do not distinguish `_` from `-` (RFC 9110, 17.10), PHP reads `.` as `_`, and lighttpd and Apache
// before 2.4 read every character so that is no letter and no digit. Names in lists are in lower case.
import { hopByHopNames, namesIn } from "./headers.ts";
import { overrideNames } from "./method.ts";
import type { KeyedPolicy } from "./policy.ts";

/** Fields that frame a message, and those that the gateway writes or reads to decide. */
export const ownNames = namesIn(
  ...hopByHopNames,
  "host content-length expect max-forwards via authorization origin access-control-request-method x-request-id forwarded",
  "x-forwarded-for x-forwarded-proto x-forwarded-host",
  ...overrideNames,
);

/**
 * Fields by which a proxy vouches for something, and which frameworks or applications believe, beside all whose names begin
 * with `x-forwarded-`. They are dropped of an untrusted peer. docs/headers.md has the same list.
 */
export const vouchingNames = namesIn(
  // The address of the client.
  "forwarded x-real-ip client-ip true-client-ip x-true-client-ip x-client-ip cluster-client-ip x-cluster-client-ip",
  "x-forwarded x-forward-for forwarded-for z-forwarded-for x-original-forwarded-for x-original-for x-originating-ip",
  "x-remote-ip x-remote-addr remote-addr x-original-remote-addr x-proxyuser-ip proxy-client-ip wl-proxy-client-ip",
  "ns-client-ip $wsra $wsrh http-client-ip http-x-client-ip http-x-cluster-client-ip http-x-real-ip http-forwarded",
  "http-forwarded-for http-x-forwarded http-x-forwarded-for x-envoy-external-address cf-connecting-ip",
  "cf-connecting-ipv6 cf-pseudo-ipv4 cloudfront-viewer-address fastly-client-ip fly-client-ip do-connecting-ip",
  "x-vercel-forwarded-for x-vercel-proxied-for x-nf-client-connection-ip x-azure-clientip x-azure-socketip",
  "x-appengine-user-ip x-appengine-remote-addr ali-cdn-real-ip ali-real-client-ip ar-real-ip cdn-real-ip cdn-src-ip",
  "cdn-viewer-ip eo-client-ip eo-connecting-ip incap-client-ip oxygen-buyer-ip tx-client-ip x-sucuri-clientip",
  // Another target than the one that was judged; the client's certificate (RFC 9440).
  "x-original-url x-rewrite-url client-cert client-cert-chain",
);

/** No such name is taken for a name above that is not the same. */
const plainName = /^[A-Za-z0-9][A-Za-z0-9-]*$/;

/** Returns the name as a server may read it: two names with the same reading are one field to such a server. */
export function readingOf(name: string): string {
  return name.toLowerCase().replace(/[^a-z0-9]/g, "-");
}

/** The names that mean something under a configuration. */
export class FieldNames {
  readonly #dropped: ReadonlySet<string>;
  readonly #known: ReadonlySet<string>;
  readonly #byReading: ReadonlyMap<string, string>;
  /** Only then a plain name can be taken for another one. */
  readonly #hasOddNames: boolean;

  constructor(dropHeaders: readonly string[], policies: readonly KeyedPolicy[]) {
    const parts = policies.flatMap(({ key }) => key);
    const configured = [...dropHeaders, ...parts.flatMap((part) => (part.kind === "header" ? part.name : []))];
    this.#dropped = new Set([...vouchingNames, ...dropHeaders]);
    this.#known = new Set([...ownNames, ...vouchingNames, ...configured]);
    this.#byReading = new Map([...this.#known].map((name) => [readingOf(name), name]));
    this.#hasOddNames = configured.some((name) => !plainName.test(name));
  }

  /** Returns whether only a trusted peer may send this field. `name` is in lower case. */
  isDropped(name: string): boolean {
    return name.startsWith("x-forwarded-") || this.#dropped.has(name);
  }

  /** Returns the name of the field for which some servers take this one; null if there is none. */
  takenFor(name: string): string | null {
    if (!this.#hasOddNames && plainName.test(name)) return null;
    const lower = name.toLowerCase();
    if (this.#known.has(lower)) return null;
    const reading = readingOf(lower);
    if (reading.startsWith("x-forwarded-")) return reading === lower ? null : reading;
    return this.#byReading.get(reading) ?? null;
  }
}

/** Of those that mean something under any configuration. */
export const fixedFieldNames = new FieldNames([], []);
