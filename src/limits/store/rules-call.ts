// What a call of the script of rules asks and answers: see rules-script.ts. What comes from the store is parsed here.
import { type TakeBackReason, takeBackReasons } from "../../core/reload.ts";
import { type ForgivenKey, parseRule, type Rule } from "../../core/rules.ts";
import { storeKeyOf, wholeOf } from "./script-call.ts";

/** The tag of the rules, which decides their shard. */
export const rulesTag = "rules";

/** Entries of one page, about, and of one call that writes; more would keep the store from others for too long. */
export const pageEntries = 200;

/** `any`: what is there does not matter. `absent`: nothing. A number: the revision of what is there. */
export type Expected = "any" | "absent" | number;

/** What a gateway says of itself with its heartbeat. */
export interface PresentGateway {
  /** `gatewayLength` characters. */
  readonly id: string;
  /** Empty if it ends. */
  readonly about: string;
  /** One that is silent for longer is not listed any more. */
  readonly silenceMs: number;
}

export type RulesOperation =
  /** `origin`, `version`: what this gateway knows. `cursor`: of the next page; "0" for the first. `present`: null says nothing. */
  | {
      readonly operation: "read";
      readonly origin: string;
      readonly version: number;
      readonly cursor: string;
      readonly present: PresentGateway | null;
    }
  | { readonly operation: "write"; readonly entries: readonly WrittenEntry[] };

/** A field of the hash. */
export interface Entry {
  /** Of a rule, a forgiveness or a notice: see `ruleEntry`, `forgivenEntry`, `noticeEntry`. */
  readonly name: string;
  /** "" of a rule that was removed; else read by `ruleOf`, `forgivenOf` and `noticeOf`. */
  readonly text: string;
  /** Nobody needs it from then on. */
  readonly endsMs: number;
  readonly revision: number;
}

/**
 * `isAgain`: the store has lost it; it is written with its revision, if that is the highest. Else it is written if what is
 * there is expected (default: any), with a revision that the store chooses if it is 0, or not above that of what is there.
 */
export interface WrittenEntry extends Entry {
  readonly isAgain?: boolean;
  readonly expected?: Expected;
}

/** `isNew`: it was written once; else a gateway has told it again. */
export interface ReadEntry extends Entry {
  readonly isNew: boolean;
}

/** What every call says. */
export interface RulesCaller {
  /** Random text, with which the origin of a hash begins that has none. */
  readonly origin: string;
  /** The highest revision or version that this gateway has seen. */
  readonly known: number;
  readonly wallMs: number;
}

/** A gateway has taken a reload on trial back. */
export interface TakenBackNotice {
  /** Random characters, of the process. */
  readonly gateway: string;
  /** The name of its machine. */
  readonly host: string;
  readonly reason: TakeBackReason;
}

export interface RulesAnswer {
  /** The store's clock. */
  readonly timeUs: number;
  /** "" if there is nothing. */
  readonly origin: string;
  readonly version: number;
  /** What was removed or forgiven up to this version may be missing. */
  readonly floor: number;
  readonly values: readonly string[];
  /** What gateways say of themselves; null if that was not asked, or cannot be read. */
  readonly present: readonly string[] | null;
}

export type WrittenResult =
  | { readonly outcome: "written"; readonly revision: number }
  /** `revision`: of what is there; 0 if nothing is. */
  | { readonly outcome: "conflict"; readonly revision: number }
  /** Another gateway has written `revision`, which this one must have seen. */
  | { readonly outcome: "old"; readonly revision: number }
  | { readonly outcome: "full" };

export function rulesKeys(prefix: string): readonly string[] {
  return ["entries", "present"].map((name) => storeKeyOf(prefix, rulesTag, name));
}

export function encodeRulesCall(operation: RulesOperation, { origin, known, wallMs }: RulesCaller): string[] {
  const head = [operation.operation, origin, String(known), String(Math.floor(wallMs))];
  if (operation.operation === "write")
    return [...head, String(operation.entries.length), ...operation.entries.flatMap(writtenTexts)];
  const { origin: of, version, cursor, present } = operation;
  const { id, about, silenceMs } = present ?? { id: "", about: "", silenceMs: 0 };
  return [...head, of, String(version), cursor, String(pageEntries), id, about, String(silenceMs)];
}

function writtenTexts({ name, text, endsMs, revision, isAgain = false, expected = "any" }: WrittenEntry): string[] {
  const wanted = expected === "any" ? "-1" : expected === "absent" ? "0" : String(expected);
  return [name, isAgain ? "a" : "n", String(revision), wanted, String(endsMs), text];
}

// What fields are called, and what they say.

const [rulePrefix, forgivenPrefix, noticePrefix] = ["r/", "f/", "n/"];

export function ruleName(id: string): string {
  return rulePrefix + id;
}

/** Returns the id of a rule; null if the field has something else. */
export function ruleIdOf({ name }: Pick<Entry, "name">): string | null {
  return name.startsWith(rulePrefix) ? name.slice(rulePrefix.length) : null;
}

export function ruleEntry({ id, revision, ...content }: Rule): Entry {
  const { about, action, policy, limit, setMs, endsMs, note, setBy } = content;
  const kept = { about, action, policy, limit, setMs, endsMs, note, setBy } satisfies typeof content;
  const text = JSON.stringify(kept);
  return { name: ruleName(id), text, endsMs: Math.ceil(endsMs), revision };
}

/** The newest forgiveness of a key takes the place of those before. */
export function forgivenEntry({ kind, value }: ForgivenKey, endsMs: number, revision: number): Entry {
  return { name: `${forgivenPrefix}${kind}/${value}`, text: JSON.stringify({ kind, value }), endsMs, revision };
}

export function noticeEntry(notice: TakenBackNotice, endsMs: number): Entry {
  return { name: noticePrefix + notice.gateway, text: JSON.stringify(notice), endsMs, revision: 0 };
}

/** Null if it is no rule, or was removed, or cannot be read. */
export function ruleOf(entry: Entry): Rule | null {
  const id = ruleIdOf(entry);
  const { about, action, policy, limit, setMs, endsMs, note, setBy } = fieldsOf(entry.text);
  const { kind, value } = (about ?? {}) as Record<string, unknown>;
  const { revision } = entry;
  return parseRule({ id, about: { kind, value }, action, policy, limit, setMs, endsMs, note, setBy, revision });
}

/** Null if it is no forgiveness, or cannot be read. */
export function forgivenOf({ name, text }: Entry): ForgivenKey | null {
  const { kind, value } = fieldsOf(text);
  if (!isForgivenKind(kind) || typeof value !== "string") return null;
  return name.startsWith(forgivenPrefix) ? { kind, value } : null;
}

/** Null if it is no notice, or cannot be read. */
export function noticeOf({ name, text }: Entry): TakenBackNotice | null {
  const { gateway, host, reason } = fieldsOf(text);
  const known = takeBackReasons.find((each) => each === reason);
  if (typeof gateway !== "string" || typeof host !== "string" || known === undefined) return null;
  return name.startsWith(noticePrefix) ? { gateway, host: host.slice(0, longestHost), reason: known } : null;
}

/** Of a name in DNS. */
const longestHost = 253;

function isForgivenKind(kind: unknown): kind is ForgivenKey["kind"] {
  return kind === "client" || kind === "token" || kind === "subject" || kind === "key";
}

function fieldsOf(text: string): Record<string, unknown> {
  return (parsedJson(text) ?? {}) as Record<string, unknown>;
}

/** Null if it is not JSON. */
export function parsedJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

/** Throws if the reply is not that of the script. */
export function decodeRulesAnswer(reply: unknown): RulesAnswer {
  if (!Array.isArray(reply)) throw new Error("the reply is not that of the script of rules");
  const [timeUs, origin, version, floor, values, present] = reply as unknown[];
  if (typeof origin !== "string" || !Array.isArray(values)) throw new Error("a part of the reply is missing");
  return {
    ...{ timeUs: wholeOf(timeUs), origin, version: wholeOf(version), floor: wholeOf(floor) },
    values: values.map(String),
    present: Array.isArray(present) ? present.map(String) : null,
  };
}

/** Of each entry that was written. */
export function resultsOf({ values }: RulesAnswer): readonly WrittenResult[] {
  return Array.from({ length: values.length / 2 }, (_, i) => {
    const [state, revision] = [wholeOf(values[2 * i]), wholeOf(values[2 * i + 1])];
    if (state === 2) return { outcome: "full" };
    return { outcome: state === 1 ? "written" : state === 3 ? "old" : "conflict", revision };
  });
}

/** `cursor`: of the next page; "0" if there is none. Fields that are no entries are left out. */
export function pageOf({ values }: RulesAnswer): { readonly cursor: string; readonly entries: readonly ReadEntry[] } {
  const [cursor = "0", ...fields] = values;
  const entries: ReadEntry[] = [];
  for (let i = 0; i + 1 < fields.length; i += 2) {
    const [, digits, ends, mark, text = ""] = /^(\d{1,16}) (\d{1,16}) ([na]) (.*)$/s.exec(fields[i + 1] ?? "") ?? [];
    const revision = Number(digits);
    if (!Number.isSafeInteger(revision)) continue;
    entries.push({ name: fields[i] ?? "", text, endsMs: Number(ends), revision, isNew: mark === "n" });
  }
  return { cursor, entries };
}
