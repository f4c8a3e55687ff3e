// `headgate block`, `exempt`, `limit` and `rules`: sets, lists and ends the rules that hold while a gateway runs.
import { createHash } from "node:crypto";
import type { RuleWanted, ShownRule } from "../../admin/control-plane.ts";
import { systemClock } from "../../core/clock.ts";
import { CommandError, exitCodes } from "../io.ts";
import type { AdminClient } from "./admin-client.ts";
import type { ConnectedGateway } from "./connect.ts";
import { type ConnectionArguments, keyOf, namedByKey, type RuleArguments, type RuledKey } from "./invocation.ts";
import { commandText, durationText, instantText, type Report, sinceText, tableLines, untilText } from "./printed.ts";

export async function reportRules({ client }: ConnectedGateway): Promise<Report> {
  const rules = await client.rules();
  return { answer: { rules }, lines: () => listLines(rules, systemClock.wallMs()) };
}

function listLines(rules: readonly ShownRule[], nowMs: number): string[] {
  if (rules.length === 0) return ["No rule holds."];
  const rows = rules.map((rule) => {
    const { id, action, policy = "", limit, ends, setBy, note = "" } = rule;
    const effect = [action, limit, policy].filter((part) => part !== undefined && part !== "").join(" ");
    return [id, effect, aboutText(rule), durationText((Date.parse(ends) - nowMs) / 1000), setBy, note];
  });
  return tableLines([["ID", "EFFECT", "WHOM", "ENDS IN", "SET BY", "NOTE"], ...rows], [3]);
}

export async function reportRuleRemoved({ client }: ConnectedGateway, id: string): Promise<Report> {
  const rule = await client.removeRule(id);
  const nowMs = systemClock.wallMs();
  return { answer: rule, lines: () => [`Rule ${id} holds no more. It was: ${ruleText(rule, nowMs)}`] };
}

export async function reportRuleSet(
  { client }: ConnectedGateway,
  rule: RuleArguments,
  connection: ConnectionArguments,
): Promise<Report> {
  const about = rule.about.kind === "client" ? await wholeClient(rule.about, client) : await subjectOf(rule, client);
  const { action, policy = null } = rule.wanted;
  const isWidened = about.value !== rule.about.value;
  const id = rule.id ?? idOf(action, policy, about);
  const { rule: set, replaced } = await setRule(client, id, { ...rule.wanted, [about.kind]: about.value });
  const nowMs = systemClock.wallMs();
  return {
    answer: set,
    lines: () => [
      ...(isWidened ? [`${rule.about.value} is one client with all of ${about.value}.`] : []),
      ...(replaced === null ? [] : [`Replaced ${ruleText(replaced, nowMs)}`]),
      ...ruleLines(set, nowMs),
      `To end it before: ${commandText(["rules", "remove", id], connection)}`,
    ],
    warnings: warningsOf(set),
  };
}

/** An IPv6 address is one client with its network, by clientAddress.ipv6Prefix, and rules must name all of it. */
async function wholeClient(about: RuledKey, client: AdminClient): Promise<RuledKey> {
  if (!about.value.includes(":") || about.value.includes("/")) return about;
  const { key } = await client.client(keyOf(about));
  return { ...about, value: namedByKey(key).value };
}

/**
 * A rule with a limit must name what its policy counts by. A listed token has the subject of its name, so a name without its kind
 * is the one that the policy has.
 */
async function subjectOf({ about, wanted }: RuleArguments, client: AdminClient): Promise<RuledKey> {
  const { action, policy: name } = wanted;
  if (action !== "limit" || !about.isBare || about.kind !== "token") return about;
  const { policies } = await client.policies();
  const policy = policies.find((each) => each.name === name) ?? (policies.length === 1 ? policies[0] : undefined);
  const isBySubject = policy?.key.includes("subject") === true && !policy.key.includes("token");
  return isBySubject ? { ...about, kind: "subject" } : about;
}

const maxIdLength = 64;

/** The same for the same effect on the same client, so that the command again sets a new end. */
export function idOf(action: RuleWanted["action"], policy: string | null, { kind, value }: RuledKey): string {
  // Of two networks no two texts become the same.
  const name = kind === "client" ? value.replaceAll(/[:/]/g, "_") : `${kind}-${value}`;
  const id = [action, ...(policy === null ? [] : [policy]), name].join("-");
  if (/^[A-Za-z0-9._-]+$/.test(id) && id.length <= maxIdLength) return id;
  // Other characters are not possible in an id, so two clients could get the same.
  const hash = createHash("sha256").update(id).digest("hex").slice(0, 12);
  return `${id.replaceAll(/[^A-Za-z0-9._-]+/g, "_").slice(0, maxIdLength - hash.length - 1)}-${hash}`;
}

interface RuleSet {
  readonly rule: ShownRule;
  /** The rule with the same id, which had the same effect; null: there was none. */
  readonly replaced: ShownRule | null;
}

/** Replaces a rule with the same effect alone. Rejects with a CommandError. */
async function setRule(client: AdminClient, id: string, wanted: RuleWanted): Promise<RuleSet> {
  const before = await ruleWith(id, client);
  if (before !== null && !hasSameEffect(before.rule, wanted)) {
    const text = ruleText(before.rule, systemClock.wallMs());
    throw new CommandError(exitCodes.refused, `there is another rule with the id ${id}; choose another --id`, [text]);
  }
  try {
    return { rule: await client.putRule(id, wanted, before?.tag ?? null), replaced: before?.rule ?? null };
  } catch (error) {
    throw error instanceof CommandError ? inWordsOfOptions(error) : error;
  }
}

/** Null: there is none. */
async function ruleWith(id: string, client: AdminClient) {
  try {
    return await client.rule(id);
  } catch (error) {
    if (error instanceof CommandError && error.exitCode === exitCodes.refused) return null;
    throw error;
  }
}

function hasSameEffect(rule: ShownRule, wanted: RuleWanted): boolean {
  const keys = ["action", "client", "token", "subject", "policy"] as const;
  return keys.every((key) => rule[key] === wanted[key] || (key === "policy" && wanted.policy === undefined));
}

/** The API speaks of keys of a body, which are options here. */
function inWordsOfOptions({ exitCode, message, details, cause }: CommandError): CommandError {
  const [first = "", ...rest] = [message, ...details].map((text) =>
    text
      .replace(/^body\.(for|note|policy|limit): /, "--$1: ")
      .replace(/^body\.(?:client|token|subject): /, "")
      .replace("set force to true if that is meant", "add --force if that is meant"),
  );
  return new CommandError(exitCode, first, rest, cause);
}

/** `client 203.0.113.7`; of a client, the address alone. */
function aboutText({ client, token, subject }: ShownRule): string {
  return client ?? (token === undefined ? `subject ${subject}` : `token ${token}`);
}

/** What a rule does, in one sentence. */
function effectText(rule: ShownRule): string {
  const whom = aboutText(rule);
  switch (rule.action) {
    case "block":
      return `blocks ${whom}`;
    case "exempt":
      return `exempts ${whom} from ${rule.policy === undefined ? "all policies" : `policy ${rule.policy}`}`;
    case "limit":
      return `gives ${whom} a limit of ${rule.limit} in policy ${rule.policy ?? "(the only one)"}`;
  }
}

function ruleText(rule: ShownRule, nowMs: number): string {
  return ruleLines(rule, nowMs).join(" ");
}

export function blocksOf(rules: readonly ShownRule[]): ShownRule[] {
  return rules.filter(({ action }) => action === "block");
}

/** What it does, until when, who has set it, and why. */
export function ruleLines(rule: ShownRule, nowMs: number): string[] {
  const { id, ends, set, setBy, note } = rule;
  return [
    `Rule ${id} ${effectText(rule)}. It ends ${untilText(ends, nowMs)}.`,
    `${setBy === "socket" ? "Somebody over the socket" : setBy} has set it ${sinceText(set, nowMs)}${note === undefined ? "." : `: ${note}`}`,
  ];
}

function warningsOf({ warnings, untouchedPolicies, survivesRestart, shared, ends }: ShownRule): string[] {
  return [
    ...warnings,
    ...(untouchedPolicies.length === 0 ? [] : [`it does not touch ${untouchedPolicies.join(", ")}`]),
    ...(survivesRestart
      ? []
      : [
          `a restart before ${instantText(ends, systemClock.wallMs())} ends it, since nothing keeps rules (counters.snapshot.path)`,
        ]),
    ...(shared === false ? ["the store is away, so it holds at this gateway alone for now"] : []),
  ];
}
