// What a command that asks a running gateway was given: how it is reached, and what is asked.
import { durationOf, type Given, isGiven, lastOf, numberOf, quote, shareOf } from "../given.ts";
import { type AdminCommandName, ruleId } from "../options.ts";
import {
  type NamedClient,
  type RuledClient,
  readNamedClient,
  readRuledClient,
  readWhy,
  type WhyAsked,
} from "./named-client.ts";

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

export interface ClientsArguments {
  readonly policy: string | null;
  readonly sort: "used" | "refused" | "recent";
  readonly search: string | null;
  readonly limit: number;
}

export interface TopArguments extends Omit<ClientsArguments, "limit"> {
  /** Between two calls. */
  readonly intervalMs: number;
  readonly isOnce: boolean;
}

export interface ConsoleArguments {
  /** 0: a free one. */
  readonly port: number;
  /** Only calls that change nothing. */
  readonly isReadOnly: boolean;
}

export interface RuleArguments {
  readonly action: "block" | "exempt" | "limit";
  readonly about: RuledClient;
  readonly policy: string | null;
  readonly limit: number | null;
  /** As it was written, such as `1h`. */
  readonly for: string;
  readonly note: string | null;
  /** Null: one is made. */
  readonly id: string | null;
  readonly force: boolean;
}

export interface TrialArguments {
  /** As it was written, such as `5m`. */
  readonly confirmWithin: string;
  readonly confirmWithinMs: number;
  /** From 0 to 1. */
  readonly refusedShare: number | null;
  readonly unconfirmed: "takeBack" | "keep";
}

type Asked =
  | { readonly command: "status" | "drain" }
  | { readonly command: "confirm" | "take-back" }
  | { readonly command: "clients"; readonly wanted: ClientsArguments }
  | { readonly command: "why"; readonly asked: WhyAsked }
  | { readonly command: "forgive"; readonly whom: NamedClient }
  | { readonly command: "block" | "exempt" | "limit"; readonly rule: RuleArguments }
  /** `remove`: the id of the rule that is to end; null: the rules are listed. */
  | { readonly command: "rules"; readonly remove: string | null }
  /** `trial`: null for good. */
  | { readonly command: "reload"; readonly trial: TrialArguments | null }
  | { readonly command: "config"; readonly against: "previous" | null }
  | { readonly command: "top"; readonly wanted: TopArguments }
  | { readonly command: "console"; readonly wanted: ConsoleArguments };

export type AdminInvocation = Asked & { readonly connection: ConnectionArguments; readonly isJson: boolean };

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

function readAsked(command: AdminCommandName, given: Given): Asked | string {
  const [word = "", other = null] = given.words;
  switch (command) {
    case "status":
    case "drain":
      return { command };
    case "confirm":
    case "take-back":
      return { command };
    case "clients":
      return { command, wanted: readClients(given) };
    case "why": {
      const asked = readWhy(word);
      return typeof asked === "string" ? asked : { command, asked };
    }
    case "forgive": {
      const whom = readNamedClient(word);
      return typeof whom === "string" ? whom : { command, whom };
    }
    case "block":
    case "exempt":
    case "limit": {
      const about = readRuledClient(word);
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
    case "top": {
      const { policy, sort, search } = readClients(given);
      const intervalMs = durationOf(given, "interval") ?? 1_000;
      return { command, wanted: { policy, sort, search, intervalMs, isOnce: isGiven(given, "once") } };
    }
    case "console":
      return { command, wanted: { port: numberOf(given, "port") ?? 0, isReadOnly: isGiven(given, "read") } };
  }
}

function readClients(given: Given): ClientsArguments {
  const sort = (["refused", "recent"] as const).find((each) => each === lastOf(given, "sort"));
  return {
    policy: lastOf(given, "policy") ?? null,
    sort: sort ?? "used",
    search: lastOf(given, "search") ?? null,
    limit: numberOf(given, "limit") ?? 20,
  };
}

function readRule(action: RuleArguments["action"], about: RuledClient, given: Given): RuleArguments {
  return {
    ...{ action, about, policy: lastOf(given, "policy") ?? null, limit: numberOf(given, "limit") },
    ...{ for: lastOf(given, "for") ?? "", note: lastOf(given, "note") ?? null },
    ...{ id: lastOf(given, "id") ?? null, force: isGiven(given, "force") },
  };
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
