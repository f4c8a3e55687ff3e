// What a call of the script of rules asks and answers: see rules-script.ts. What comes from the store is parsed here.
import { type TakeBackReason, takeBackReasons } from "../../core/reload.ts";
import { type ForgivenKey, parseRule, type Rule } from "../../core/rules.ts";
import { storeKeyOf } from "./script-call.ts";

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

/**
 * `isAgain`: the store has lost it; it is written with its revision, if that is the highest. Else it is written if what is
 * there is expected (default: any), with a revision that the store chooses if it is 0, or not above that of what is there.
 */
export type WrittenEntry = EntryContent & {
  readonly revision: number;
  readonly isAgain?: boolean;
  readonly expected?: Expected;
};

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

/** `endsMs`: nobody needs it from then on. */
export type EntryContent = { readonly endsMs: number } & (
  | { readonly kind: "rule"; readonly id: string /** Null: it was removed. */; readonly rule: Rule | null }
  | { readonly kind: "forgiven"; readonly name: ForgivenKey }
  | { readonly kind: "notice"; readonly notice: TakenBackNotice }
);

export type Entry = EntryContent & {
  readonly revision: number;
  /** Whether it was written once; else a gateway has told it again. */
  readonly isNew: boolean;
};

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

function writtenTexts(entry: WrittenEntry): string[] {
  const { expected = "any", revision, endsMs, isAgain = false } = entry;
  const wanted = expected === "any" ? "-1" : expected === "absent" ? "0" : String(expected);
  return [entryName(entry), isAgain ? "a" : "n", String(revision), wanted, String(Math.ceil(endsMs)), textOf(entry)];
}

const [rulePrefix, forgivenPrefix, noticePrefix] = ["r/", "f/", "n/"];

export function ruleName(id: string): string {
  return rulePrefix + id;
}

/** The newest forgiveness of a key takes the place of those before. */
export function forgivenName({ kind, value }: ForgivenKey): string {
  return `${forgivenPrefix}${kind}/${value}`;
}

/** Returns the name of the field that has it. */
export function entryName(entry: EntryContent): string {
  if (entry.kind === "rule") return ruleName(entry.id);
  return entry.kind === "forgiven" ? forgivenName(entry.name) : noticePrefix + entry.notice.gateway;
}

/** Returns the text of a field; "" of a rule that was removed. */
export function textOf(entry: EntryContent): string {
  if (entry.kind === "rule") return entry.rule === null ? "" : ruleText(entry.rule);
  return JSON.stringify(entry.kind === "forgiven" ? { kind: entry.name.kind, value: entry.name.value } : entry.notice);
}

function ruleText({ about, action, policy, limit, setMs, endsMs, note, setBy }: Rule): string {
  return JSON.stringify({ about, action, policy, limit, setMs, endsMs, note, setBy });
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

/** `cursor`: of the next page; "0" if there is none. Entries that cannot be read are left out: see there. */
export function pageOf({ values }: RulesAnswer): { readonly cursor: string; readonly entries: readonly Entry[] } {
  const [cursor = "0", ...fields] = values;
  const entries: Entry[] = [];
  for (let i = 0; i + 1 < fields.length; i += 2) {
    const entry = entryOf(fields[i] as string, fields[i + 1] as string);
    if (entry !== null) entries.push(entry);
  }
  return { cursor, entries };
}

/** Null if it cannot be read: a gateway of a later version, or something else, may have written it. */
function entryOf(name: string, value: string): Entry | null {
  const [, digits, ends, mark, text = ""] = /^(\d{1,15}|\d{16}) (\d{1,15}) ([na]) (.*)$/s.exec(value) ?? [];
  const revision = Number(digits);
  if (!Number.isSafeInteger(revision)) return null;
  const content = contentOf(name, text, revision);
  return content && { ...content, revision, endsMs: Number(ends), isNew: mark === "n" };
}

function contentOf(name: string, text: string, revision: number) {
  const content = parsedJson(text);
  if (name.startsWith(rulePrefix)) {
    const id = name.slice(rulePrefix.length);
    const rule = text === "" ? null : ruleOf(content, id, revision);
    return text !== "" && rule === null ? null : { kind: "rule" as const, id, rule };
  }
  if (name.startsWith(noticePrefix)) {
    const notice = noticeOf(content);
    return notice && { kind: "notice" as const, notice };
  }
  const { kind, value } = (content ?? {}) as Record<string, unknown>;
  if (!isForgivenKind(kind) || typeof value !== "string") return null;
  return name.startsWith(forgivenPrefix) ? { kind: "forgiven" as const, name: { kind, value } } : null;
}

function noticeOf(content: unknown): TakenBackNotice | null {
  const { gateway, host, reason } = (content ?? {}) as Record<string, unknown>;
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

function isForgivenKind(kind: unknown): kind is ForgivenKey["kind"] {
  return kind === "client" || kind === "token" || kind === "subject" || kind === "key";
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
