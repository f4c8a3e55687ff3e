// What a command that asks a running gateway was given: how it is reached, and what is asked.

import type { ClientsWanted, RuleWanted } from "../../admin/control-plane.ts";
import { formatCidr, formatIpAddress, parseCidr, parseIpAddress } from "../../core/ip-address.ts";
import { withFirstAddress } from "../../core/network-set.ts";
import { durationOf, type Given, isGiven, lastOf, numberOf, quote, shareOf } from "../given.ts";
import { type AdminCommandName, ruleId } from "../options.ts";

/** How a gateway is reached, as it was given. At most one of `socket` and `url` is there. */
export interface ConnectionArguments {
  readonly socket: string | null;
  readonly url: URL | null;
  /** With `url`. */
  readonly tokenFile: string | null;
  /** With `url`. */
  readonly ca: string | null;
  /** Absent: HEADGATE_CONFIG, or the packaged file. */
  readonly config: string | undefined;
}

export interface ConsoleArguments {
  /** 0: a free one. */
  readonly port: number;
  /** Only calls that change nothing. */
  readonly isReadOnly: boolean;
}

export interface RuleArguments {
  readonly about: RuledKey;
  /** Without whom it is about. */
  readonly wanted: RuleWanted;
  /** Null: one is made. */
  readonly id: string | null;
}

export interface TrialArguments {
  /** As it was written, such as `5m`. */
  readonly confirmWithin: string;
  readonly confirmWithinMs: number;
  /** From 0 to 1. */
  readonly refusedShare: number | null;
  readonly unconfirmed: "takeBack" | "keep";
}

type AdminCommand =
  | { readonly command: "status" | "drain" | "confirm" | "take-back" }
  | { readonly command: "clients"; readonly wanted: ClientsWanted; readonly isWatch: boolean }
  | { readonly command: "why"; readonly asked: WhyAsked }
  | { readonly command: "forgive"; readonly whom: AskedKey }
  | { readonly command: "block" | "exempt" | "limit"; readonly rule: RuleArguments }
  /** `remove`: the id of the rule that is to end; null: the rules are listed. */
  | { readonly command: "rules"; readonly remove: string | null }
  /** `trial`: null for good. */
  | { readonly command: "reload"; readonly trial: TrialArguments | null }
  | { readonly command: "config"; readonly against: "previous" | null }
  | { readonly command: "console"; readonly wanted: ConsoleArguments };

export type AdminInvocation = AdminCommand & { readonly connection: ConnectionArguments; readonly isJson: boolean };

/** Returns a message about what is wrong first. */
export function readAdminInvocation(command: AdminCommandName, given: Given): AdminInvocation | string {
  const connection = readConnection(given);
  if (typeof connection === "string") return connection;
  const asked = readAsked(command, given);
  return typeof asked === "string" ? asked : { ...asked, connection, isJson: isGiven(given, "json") };
}

function readConnection(given: Given): ConnectionArguments | string {
  const [socket, written, tokenFile, ca, config] = (["socket", "url", "token-file", "ca", "config"] as const).map(
    (name) => lastOf(given, name),
  );
  if (socket !== undefined && written !== undefined) return "--socket: found with --url, expected one of the two";
  const url = written === undefined ? null : readUrl(written);
  if (typeof url === "string") return url;
  if (url !== null && tokenFile === undefined)
    return "--url: found no --token-file, expected one, since the API asks for a token over TCP";
  if (url === null && tokenFile !== undefined) return "--token-file: found no --url, expected one";
  if (url?.protocol !== "https:" && ca !== undefined) return "--ca: found no https:// in --url, expected it";
  return { socket: socket ?? null, url, tokenFile: tokenFile ?? null, ca: ca ?? null, config };
}

/** The URL is not quoted, because it may have a password. */
function readUrl(written: string): URL | string {
  const expected = "expected the scheme, the host and the port of an admin listener, such as https://10.0.0.1:9464";
  const url = URL.canParse(written) ? new URL(written) : null;
  if (url === null || !["http:", "https:"].includes(url.protocol)) return `--url: found another text, ${expected}`;
  const isMore = url.username + url.password + url.search + url.hash !== "" || url.pathname !== "/";
  return isMore ? `--url: found more than an address, ${expected}` : url;
}

function readAsked(command: AdminCommandName, given: Given): AdminCommand | string {
  const [word = "", other = null] = given.words;
  switch (command) {
    case "status":
    case "drain":
    case "confirm":
    case "take-back":
      return { command };
    case "clients":
      return { command, wanted: readClients(given), isWatch: isGiven(given, "watch") };
    case "why": {
      const asked = readWhy(word);
      return typeof asked === "string" ? asked : { command, asked };
    }
    case "forgive": {
      const whom = readAskedKey(word);
      return typeof whom === "string" ? whom : { command, whom };
    }
    case "block":
    case "exempt":
    case "limit": {
      const about = readRuledKey(word);
      return typeof about === "string" ? about : { command, rule: readRule(command, about, given) };
    }
    case "rules":
      if (other !== null && !ruleId.pattern.test(other)) return `found ${quote(other)}, expected ${ruleId.expected}`;
      return { command, remove: other };
    case "reload": {
      const trial = readTrial(given);
      return typeof trial === "string" ? trial : { command, trial };
    }
    case "config":
      return { command, against: isGiven(given, "against") ? "previous" : null };
    case "console":
      return { command, wanted: { port: numberOf(given, "port") ?? 0, isReadOnly: isGiven(given, "read") } };
  }
}

function readClients(given: Given): ClientsWanted {
  const sort = (["share", "refused", "recent"] as const).find((each) => each === lastOf(given, "sort"));
  return {
    policy: lastOf(given, "policy") ?? null,
    sort: sort ?? "used",
    search: lastOf(given, "search") ?? null,
    limit: numberOf(given, "limit") ?? 20,
  };
}

function readRule(action: RuleWanted["action"], about: RuledKey, given: Given): RuleArguments {
  const [policy, limit, note] = [lastOf(given, "policy"), numberOf(given, "limit"), lastOf(given, "note")];
  const wanted: RuleWanted = {
    ...{ action, for: lastOf(given, "for") ?? "" },
    ...(policy === undefined ? {} : { policy }),
    ...(limit === null ? {} : { limit }),
    ...(note === undefined ? {} : { note }),
    ...(isGiven(given, "force") ? { force: true } : {}),
  };
  return { about, wanted, id: lastOf(given, "id") ?? null };
}

function readTrial(given: Given): TrialArguments | null | string {
  const confirmWithin = lastOf(given, "confirm-within");
  if (confirmWithin === undefined) {
    const lonely = ["unless-refused", "unconfirmed"].find((name) => isGiven(given, name));
    return lonely === undefined ? null : `--${lonely}: found no --confirm-within, expected one`;
  }
  const refused = lastOf(given, "unless-refused");
  return {
    confirmWithin,
    confirmWithinMs: durationOf(given, "confirm-within") ?? 0,
    refusedShare: refused === undefined ? null : shareOf(refused),
    unconfirmed: lastOf(given, "unconfirmed") === "keep" ? "keep" : "takeBack",
  };
}

export type KeyKind = "client" | "token" | "subject" | "key";

/**
 * What a word on the command line means: an address or a network is a client, the form of a request id a request, and
 * any other word the name of a token, or for `why` the id of a request. `kind:value` is always possible.
 */
export interface AskedKey {
  readonly kind: KeyKind;
  /** Of a client: an address or a network, in canonical text. */
  readonly value: string;
  /** True: it was named without its kind. */
  readonly isBare: boolean;
}

/** Whom a rule can be about. */
export interface RuledKey extends AskedKey {
  readonly kind: Exclude<KeyKind, "key">;
}

/** What `why` is asked about. `text`: as it was written. */
export type WhyAsked = { readonly text: string } & (
  | { readonly kind: "request"; readonly id: string }
  | { readonly kind: "client"; readonly client: AskedKey }
);

/** As the API writes it, such as `client:203.0.113.7`. */
export function keyOf({ kind, value }: Pick<AskedKey, "kind" | "value">): string {
  return `${kind}:${value}`;
}

/** Reads a key that the API has written. */
export function namedByKey(key: string): AskedKey {
  const [, kind, value = ""] = withKind.exec(key) ?? [];
  return kind === undefined
    ? { kind: "token", value: key, isBare: true }
    : { kind: kind as KeyKind, value, isBare: false };
}

const withKind = /^(client|token|subject|key):(.*)$/s;
/** As the gateway makes them, the same without hyphens, or named as one, as those that clients choose. */
const requestId = /^(?:[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{32}|request:([!-~]{1,128}))$/i;

/** Returns a message about what is wrong. */
function readAskedKey(text: string): AskedKey | string {
  const address = addressOf(text);
  if (address !== null) return { kind: "client", value: address, isBare: true };
  if (requestId.test(text)) return `found a request id, expected a client: "headgate why ${text}" says which`;
  const [, kind, value = ""] = withKind.exec(text) ?? [];
  if (kind === undefined) return { kind: "token", value: text, isBare: true };
  if (value === "") return `found nothing after "${kind}:", expected ${expectedValues[kind as KeyKind]}`;
  const canonical = kind === "client" ? addressOf(value) : value;
  if (canonical === null) return `found another text after "client:", expected ${expectedValues.client}`;
  if (kind === "key" && !/^[0-9a-f]{32}$/.test(value))
    return `found another text after "key:", expected ${expectedValues.key}`;
  return { kind: kind as KeyKind, value: canonical, isBare: false };
}

const expectedValues: Readonly<Record<KeyKind, string>> = {
  client: "an address or a network, such as 203.0.113.0/24",
  token: "the name of a listed token",
  subject: "a subject",
  key: "32 hexadecimal digits in lower case",
};

/** A host name, or what was to be an address. */
const readsAsHost = /^(?:localhost|[\w-]+(?:\.[\w-]+)+\.?(?:[:/]\S*)?|[\da-f.]*[:/[][\da-f.:/[\]%\w]*)$/i;

export function readRuledKey(text: string): RuledKey | string {
  const named = readAskedKey(text);
  if (typeof named === "string") return named;
  const { kind } = named;
  // A rule about a token that nobody lists is accepted, and about nobody.
  if (named.isBare && kind === "token" && readsAsHost.test(text))
    return `found ${quote(text)}, which reads as a host, expected an address or a network; a token of this name is token:${text}`;
  if (kind === "key") return "found a key of which only a hash is known, expected a client, a token or a subject";
  return { ...named, kind };
}

/** Returns a message about what is wrong. */
function readWhy(text: string): WhyAsked | string {
  const request = requestId.exec(text);
  if (request !== null) return { text, kind: "request", id: request[1] ?? text };
  const client = readAskedKey(text);
  return typeof client === "string" ? client : { text, kind: "client", client };
}

/** The canonical text of an address or a network; null for another text. */
function addressOf(text: string): string | null {
  // A zone is that of a machine, which need not be the gateway's.
  if (text.includes("%")) return null;
  const address = parseIpAddress(text);
  if (address !== undefined) return formatIpAddress(address);
  const network = parseCidr(text);
  return network === undefined ? null : formatCidr(withFirstAddress(network));
}
