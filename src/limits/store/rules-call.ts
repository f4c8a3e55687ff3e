// What a call of the script of rules asks and answers: see rules-script.ts. What comes from the store is parsed here.
import { type TakeBackReason, takeBackReasons } from "../../core/reload.ts";
import { type ForgivenKey, parseRule, type Rule } from "../../core/rules.ts";
import { storeKeyOf } from "./script-call.ts";

/** The tag of the log, which decides its shard. */
export const rulesTag = "rules";

/** Entries of one page, and of one call that tells them again; more would keep the store from others for too long. */
export const pageEntries = 200;

/** `any`: what is there does not matter. `absent`: nothing. A number: the revision of what is there. */
export type Expected = "any" | "absent" | number;

export type RulesOperation =
  | { readonly operation: "read"; readonly after: number }
  | { readonly operation: "put"; readonly rule: Rule; readonly expected: Expected }
  | { readonly operation: "remove"; readonly id: string; readonly revision: number; readonly expected: Expected }
  | { readonly operation: "forgive"; readonly name: ForgivenKey; readonly untilMs: number }
  | { readonly operation: "notice"; readonly notice: TakenBackNotice; readonly untilMs: number }
  | { readonly operation: "again"; readonly entries: readonly ToldEntry[] };

/** What every call says. */
export interface RulesCaller {
  /** Random text, with which the origin of a log begins that has none. */
  readonly origin: string;
  /** The highest revision or place that this gateway has seen. */
  readonly known: number;
  readonly wallMs: number;
}

/** What is told again: a rule, one that was removed (null), or a forgiveness. */
export type ToldEntry =
  | { readonly kind: "rule"; readonly id: string; readonly rule: Rule | null; readonly revision: number }
  | { readonly kind: "forgiven"; readonly name: ForgivenKey; readonly untilMs: number; readonly revision: number };

/** A gateway has taken a reload on trial back. */
export interface TakenBackNotice {
  /** Random characters, of the process. */
  readonly gateway: string;
  /** The name of its machine. */
  readonly host: string;
  readonly reason: TakeBackReason;
}

export type LogEntry = (ToldEntry | { readonly kind: "notice"; readonly notice: TakenBackNotice }) & {
  /** In the log. */
  readonly place: number;
  /** Whether it is new there; else a gateway has told it again. */
  readonly isNew: boolean;
};

export interface RulesAnswer {
  /** The store's clock. */
  readonly timeUs: number;
  readonly origin: string;
  /** Removals up to this place may be forgotten. */
  readonly floor: number;
  /** The last place of the log. */
  readonly last: number;
  readonly values: readonly string[];
}

export interface RulesPage {
  readonly hasMore: boolean;
  readonly entries: readonly LogEntry[];
  /** Of the last entry, those that cannot be read too. */
  readonly lastPlace: number;
}

export type WrittenResult =
  | { readonly outcome: "written"; readonly revision: number }
  /** `revision`: of what is there; 0 if nothing is. */
  | { readonly outcome: "conflict"; readonly revision: number }
  /** Another gateway has written `revision`, and what this one writes must be above it. */
  | { readonly outcome: "old"; readonly revision: number }
  | { readonly outcome: "full" };

export function rulesKeys(prefix: string): readonly string[] {
  return ["entries", "order", "rules", "forgiven", "removed"].map((name) => storeKeyOf(prefix, rulesTag, name));
}

export function encodeRulesCall(operation: RulesOperation, { origin, known, wallMs }: RulesCaller): string[] {
  // The script and gateways of earlier versions take a notice for a forgiveness that they cannot read, and leave it out.
  const name = operation.operation === "notice" ? "forgive" : operation.operation;
  const head = [name, origin, String(known), String(Math.floor(wallMs))];
  switch (operation.operation) {
    case "read":
      return [...head, String(operation.after), String(pageEntries)];
    case "put": {
      const { rule, expected } = operation;
      const { id, revision, endsMs } = rule;
      return [...head, ruleName(id), expectedText(expected), String(revision), ruleText(rule), String(endsMs)];
    }
    case "remove":
      return [...head, ruleName(operation.id), expectedText(operation.expected), String(operation.revision)];
    case "forgive": {
      const { name, untilMs } = operation;
      return [...head, forgivenName(name), forgivenText(name, untilMs), String(untilMs)];
    }
    case "notice": {
      const { notice, untilMs } = operation;
      return [...head, noticePrefix + notice.gateway, JSON.stringify({ notice, untilMs }), String(untilMs)];
    }
    case "again":
      return [...head, String(operation.entries.length), ...operation.entries.flatMap(toldTexts)];
  }
}

function expectedText(expected: Expected): string {
  return expected === "any" ? "-1" : expected === "absent" ? "0" : String(expected);
}

function toldTexts(entry: ToldEntry): string[] {
  if (entry.kind === "rule") {
    const { id, rule, revision } = entry;
    return ["r", ruleName(id), String(revision), rule === null ? "" : ruleText(rule), String(rule?.endsMs ?? 0)];
  }
  const { name, untilMs, revision } = entry;
  return ["f", forgivenName(name), String(revision), forgivenText(name, untilMs), String(untilMs)];
}

const [rulePrefix, forgivenPrefix, noticePrefix] = ["r/", "f/", "n/"];

function ruleName(id: string): string {
  return rulePrefix + id;
}

/** Returns what the log calls a forgiveness: the newest one of a key takes the place of those before. */
export function forgivenName({ kind, value }: ForgivenKey): string {
  return `${forgivenPrefix}${kind}/${value}`;
}

function ruleText({ about, action, policy, limit, setMs, endsMs, note, setBy }: Rule): string {
  return JSON.stringify({ about, action, policy, limit, setMs, endsMs, note, setBy });
}

function forgivenText({ kind, value }: ForgivenKey, untilMs: number): string {
  return JSON.stringify({ kind, value, untilMs });
}

/** Throws if the reply is not that of the script. */
export function decodeRulesAnswer(reply: unknown): RulesAnswer {
  if (!Array.isArray(reply) || reply.length !== 5) throw new Error("the reply is not that of the script of rules");
  const [timeUs, origin, floor, last, values] = reply as unknown[];
  if (typeof origin !== "string" || !Array.isArray(values)) throw new Error("a part of the reply is missing");
  return {
    ...{ timeUs: wholeOf(timeUs), origin, floor: wholeOf(floor), last: wholeOf(last) },
    values: values.map(String),
  };
}

export function resultOf({ values }: RulesAnswer): WrittenResult {
  const [state, revision] = values.map(wholeOf);
  if (state === 2) return { outcome: "full" };
  return { outcome: state === 1 ? "written" : state === 3 ? "old" : "conflict", revision: revision ?? 0 };
}

/** Of each entry that was told again, whether there was room for it. */
export function roomOf({ values }: RulesAnswer): readonly boolean[] {
  return values.map((value) => wholeOf(value) !== 2);
}

/** Entries that cannot be read are left out: a gateway of a later version may have written them. */
export function pageOf({ values }: RulesAnswer): RulesPage {
  const [hasMore, ...rest] = values;
  const entries: LogEntry[] = [];
  let lastPlace = 0;
  for (let i = 0; i + 2 < rest.length; i += 3) {
    lastPlace = wholeOf(rest[i + 1]);
    const entry = entryOf(rest[i] as string, rest[i + 2] as string, lastPlace);
    if (entry !== null) entries.push(entry);
  }
  return { hasMore: hasMore === "1", entries, lastPlace };
}

function entryOf(name: string, value: string, place: number): LogEntry | null {
  const [, digits, mark, text] = /^(\d+) ([na]) (.*)$/s.exec(value) ?? [];
  if (digits === undefined || text === undefined) return null;
  const revision = wholeOf(digits);
  const at = { revision, place, isNew: mark === "n" };
  const content = text === "" ? null : parsedJson(text);
  if (name.startsWith(rulePrefix)) {
    const id = name.slice(rulePrefix.length);
    const rule = text === "" ? null : ruleOf(content, id, revision);
    return text !== "" && rule === null ? null : { kind: "rule", id, rule, ...at };
  }
  if (name.startsWith(noticePrefix)) {
    const notice = noticeOf(content);
    return notice && { kind: "notice", notice, ...at };
  }
  const { kind, value: of, untilMs } = (content ?? {}) as Record<string, unknown>;
  if (!isSubjectKind(kind) && kind !== "key") return null;
  if (typeof of !== "string" || typeof untilMs !== "number") return null;
  return { kind: "forgiven", name: { kind, value: of }, untilMs, ...at };
}

function noticeOf(content: unknown): TakenBackNotice | null {
  const { notice } = (content ?? {}) as Record<string, unknown>;
  const { gateway, host, reason } = (notice ?? {}) as Record<string, unknown>;
  const known = takeBackReasons.find((each) => each === reason);
  if (typeof gateway !== "string" || typeof host !== "string" || known === undefined) return null;
  return { gateway, host: host.slice(0, longestHost), reason: known };
}

/** Of a name in DNS. */
const longestHost = 253;

function ruleOf(content: unknown, id: string, revision: number): Rule | null {
  const { about, action, policy, limit, setMs, endsMs, note, setBy } = (content ?? {}) as Record<string, unknown>;
  const { kind, value } = (about ?? {}) as Record<string, unknown>;
  return parseRule({ id, about: { kind, value }, action, policy, limit, setMs, endsMs, note, setBy, revision });
}

function isSubjectKind(kind: unknown): kind is "client" | "token" | "subject" {
  return kind === "client" || kind === "token" || kind === "subject";
}

/** Null if it is not JSON. */
export function parsedJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

function wholeOf(value: unknown): number {
  const number = typeof value === "string" && value !== "" ? Number(value) : value;
  if (typeof number !== "number" || !Number.isSafeInteger(number)) throw new Error("a number is missing in the reply");
  return number;
}
