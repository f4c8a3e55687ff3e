// The rules in a snapshot: each section is a JSON list of rules. Counters do not depend on rules, so a damaged list is left
// out, and the counters are read all the same.
import { parseCidr } from "../../core/ip-address.ts";
import { type Rule, type RuleSubject, ruleActions } from "../../core/rules.ts";

/** Returns the contents of the sections, each at most `maxBytes` long. */
export function* encodeRules(rules: readonly Rule[], maxBytes: number): Generator<Buffer> {
  let texts: string[] = [];
  let bytes = 0;
  for (const text of rules.map((rule) => JSON.stringify(rule))) {
    // With a comma, and the brackets of the list.
    const length = Buffer.byteLength(text) + 2;
    if (bytes + length > maxBytes) {
      yield Buffer.from(`[${texts.join()}]`);
      [texts, bytes] = [[], 0];
    }
    texts.push(text);
    bytes += length;
  }
  if (texts.length > 0) yield Buffer.from(`[${texts.join()}]`);
}

/** Null if it is no list of rules. */
export function decodeRules(content: Buffer): readonly Rule[] | null {
  try {
    const value: unknown = JSON.parse(content.toString("utf8"));
    return Array.isArray(value) && value.every(isRule) ? value : null;
  } catch (error) {
    if (error instanceof SyntaxError) return null;
    throw error;
  }
}

export type Fields = Readonly<Record<string, unknown>>;

function isRule(value: unknown): value is Rule {
  if (!isObject(value)) return false;
  const { id, about, action, policy, limit, setMs, endsMs, note, setBy, revision } = value;
  const areTexts = [id, note, setBy].every((text) => typeof text === "string");
  const areNumbers = [setMs, endsMs, revision].every((number) => Number.isSafeInteger(number));
  const isAction = ruleActions.some((each) => each === action);
  const isPolicy = policy === null || typeof policy === "string";
  const isLimit = action === "limit" ? Number.isSafeInteger(limit) && Number(limit) >= 1 : limit === null;
  return areTexts && areNumbers && isAction && isPolicy && isLimit && isAbout(about);
}

function isAbout(value: unknown): value is RuleSubject {
  if (!isObject(value) || typeof value["value"] !== "string") return false;
  if (value["kind"] === "client") return parseCidr(value["value"]) !== undefined;
  return value["kind"] === "token" || value["kind"] === "subject";
}

export function isObject(value: unknown): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
