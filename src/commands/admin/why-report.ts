// `headgate why`: why a request or a client is refused, until when, and what to do about it. What the admin API answers is put into
// sentences here, and each command that would change something is written out.
import type { ClientState, Config, PolicyList, RequestAnswer, ShownRule } from "../../admin/control-plane.ts";
import { formatDuration } from "../../config/leaves.ts";
import { systemClock } from "../../core/clock.ts";
import { CommandError, exitCodes } from "../io.ts";
import type { AdminClient } from "./admin-client.ts";
import type { ConnectedGateway } from "./connect.ts";
import { type AskedKey, type ConnectionArguments, keyOf, namedByKey, type WhyAsked } from "./invocation.ts";
import { commandText, durationText, instantText, type Report, sinceText, tableLines } from "./printed.ts";
import type { WhyAnswer } from "./printed-schemas.ts";
import { blocksOf, ruleLines } from "./rule-report.ts";

type ListedPolicy = PolicyList["policies"][number];
type ShownPolicyState = ClientState["policies"][number];

/** What the gateway knows of it. */
interface WhyFacts {
  /** Null: a client was asked about. */
  readonly request: RequestAnswer | null;
  readonly named: AskedKey;
  /** Null: nothing is counted for it. */
  readonly client: ClientState | null;
  /** The last ones. */
  readonly refusals: readonly RequestAnswer[];
  readonly rules: readonly ShownRule[];
  readonly policies: readonly ListedPolicy[];
  readonly config: Config;
}

export async function reportWhy(
  { client }: ConnectedGateway,
  asked: WhyAsked,
  connection: ConnectionArguments,
): Promise<Report> {
  const known = await findKnown(client, asked);
  const nowMs = systemClock.wallMs();
  const answer: WhyAnswer = {
    ...{ asked: asked.text, request: known.request, client: known.client },
    ...{ refusals: [...known.refusals], rules: [...known.rules] },
    state: stateOf(known),
    explanation: explanationOf(known, nowMs),
    settings: refusing(known).flatMap(({ policy, limit }) => settingOf(policy, limit, known)),
    commands: commandsFor(known, connection),
  };
  return { answer, lines: () => whyLines(answer, nowMs) };
}

// What is asked of the gateway

/** As many as a person reads. */
const maxRefusals = 10;

/** Rejects with a CommandError that says what was tried, if nothing is known. */
async function findKnown(client: AdminClient, asked: WhyAsked): Promise<WhyFacts> {
  const { request, rule, named } =
    asked.kind === "request" ? await findRequest(client, asked.id) : { request: null, rule: null, named: asked.client };
  const [state, last, policies, config] = await Promise.all([
    orNotFound(client.client(keyOf(named))),
    // A gateway of a release before this call has none.
    orNotFound(client.refusals(keyOf(named), maxRefusals)),
    client.policies(),
    client.config(null),
  ]);
  const about = state === null ? [] : state.rules;
  const isOther = rule !== null && !about.some(({ id }) => id === rule.id);
  const rules = isOther ? [...about, rule] : about;
  const refusals = last?.refusals ?? [];
  const isCounted = state !== null && state.policies.length > 0;
  const isKnown = request !== null || rules.length > 0 || refusals.length > 0 || isCounted;
  if (!isKnown) {
    const { text } = asked;
    if (named.isBare && /^[!-~]{1,128}$/.test(text) && (await orNotFound(client.request(text))) !== null)
      return findKnown(client, { text, kind: "request", id: text });
    throw unknown(named);
  }
  const counted = { named: asCounted(named, state), client: state };
  return { request, ...counted, refusals, rules, policies: policies.policies, config };
}

/** An IPv6 address is counted with its network, which rules must name. */
function asCounted(named: AskedKey, state: ClientState | null): AskedKey {
  return named.kind === "client" && state !== null ? { ...named, value: namedByKey(state.key).value } : named;
}

interface FoundRequest extends Pick<WhyFacts, "request" | "named"> {
  /** That has decided; null: none, or it has ended. */
  readonly rule: ShownRule | null;
}

async function findRequest(client: AdminClient, id: string): Promise<FoundRequest> {
  try {
    const request = await client.request(id);
    const rule = request.rule === null ? null : ((await orNotFound(client.rule(request.rule)))?.rule ?? null);
    const { token, subject } = rule ?? {};
    const ofRule = token !== undefined ? `token:${token}` : subject !== undefined ? `subject:${subject}` : null;
    return { request, rule, named: namedByKey(request.key ?? ofRule ?? `client:${request.client}`) };
  } catch (error) {
    if (!isNotFound(error)) throw error;
    // The digits of a hash have the same form.
    const named: AskedKey = { kind: "key", value: id.toLowerCase(), isBare: false };
    const isHash = /^[0-9a-f]{32}$/.test(named.value);
    if (isHash && (await orNotFound(client.client(keyOf(named)))) !== null) return { request: null, rule: null, named };
    const tried = `Tried: request ${id}${isHash ? `, ${keyOf(named)}` : ""}. Only requests that were refused, or that the upstream failed, are remembered.`;
    throw new CommandError(exitCodes.refused, error.message, [...error.details, tried]);
  }
}

function unknown(named: AskedKey): CommandError {
  const { kind, value, isBare } = named;
  const why = {
    client: "A network of several clients has no counts of its own; ask about an address.",
    token: "No listed token has this name (auth.tokensFile), or no policy counts by token or subject.",
    subject: "No policy counts by subject, or by it alone.",
    key: "No policy has counted anything for this hash.",
  }[kind];
  const details = [`Tried: ${keyOf(named)}. ${why}`];
  if (isBare) details.push("No refusal that is remembered has it as its X-Request-Id.");
  if (kind === "token" && isBare) details.push(`A subject that is no listed token is written subject:${value}.`);
  return new CommandError(exitCodes.refused, `nothing is known of ${value}`, details);
}

function isNotFound(error: unknown): error is CommandError {
  return error instanceof CommandError && error.exitCode === exitCodes.refused;
}

async function orNotFound<T>(answer: Promise<T>): Promise<T | null> {
  try {
    return await answer;
  } catch (error) {
    if (isNotFound(error)) return null;
    throw error;
  }
}

// What it means

/** The policies that refuse the client now. */
function refusing({ client }: Pick<WhyFacts, "client">): ShownPolicyState[] {
  return (client?.policies ?? []).filter(({ state, isShadow }) => state === "exhausted" && !isShadow);
}

function stateOf({ client, rules }: WhyFacts): WhyAnswer["state"] {
  if (blocksOf(rules).length > 0) return "blocked";
  if (client === null) return "unknown";
  if (refusing({ client }).length > 0) return "throttled";
  const enforced = client.policies.filter(({ isShadow }) => !isShadow);
  return enforced.length > 0 && enforced.every(({ state }) => state === "exempt") ? "exempt" : "open";
}

function explanationOf(known: WhyFacts, nowMs: number): string[] {
  const { request, client, rules } = known;
  return [
    ...(request === null ? [] : requestSentences(request, known, nowMs)),
    headline(known),
    ...refusing(known).flatMap((state) => policySentences(state, known, nowMs)),
    ...rules.flatMap((rule) => ruleLines(rule, nowMs)),
    ...(client === null ? [] : besideSentences(client)),
  ];
}

function requestSentences(request: RequestAnswer, { policies }: WhyFacts, nowMs: number): string[] {
  const { method, path, at, source, status, reason, client, policy, key, rule, explanation } = request;
  const asker = source === "ext-auth" ? "an ingress asked about " : "";
  // Of some requests that were refused nothing was read.
  const asked = method === "" ? "a request" : `${method} ${path}`;
  const { requestId, isRepeated } = request;
  const again = isRepeated ? ", and refusals before it had the same" : "";
  const own = requestId ? ` The client chose its X-Request-Id, ${requestId}${again}.` : "";
  const what = `${sinceText(at, nowMs)}: ${asker}${asked} from ${client} got ${status}${reason === null ? "" : ` (${reason})`}.${own}`;
  if (reason === "throttled" && policy !== null) {
    const used = `Policy ${policy.policy} refused it: all ${policy.limit} of ${key ?? client} were used.`;
    const isSlot = policies.find(({ name }) => name === policy.policy)?.kind === "concurrency";
    const isFree = Date.parse(policy.reset) <= nowMs;
    const next = `The next one ${isFree ? "was" : "is"} free at ${instantText(policy.reset, nowMs)}.`;
    return [what, `${used} ${isSlot ? freeLater : next}`];
  }
  if (reason === "blocked") return [what, `Rule ${rule ?? "(which has ended)"} blocked it.`];
  return [what, ...explanation];
}

function headline(known: WhyFacts): string {
  const { request, named, rules } = known;
  const whom = `${request === null ? "" : "Now "}${wordOf(named)}`;
  switch (stateOf(known)) {
    case "blocked":
      return `${whom} is blocked by rule ${blocksOf(rules)
        .map(({ id }) => id)
        .join(", ")}.`;
    case "throttled": {
      const names = [...new Set(refusing(known).map(({ policy }) => policy))];
      return `${whom} is throttled by policy ${names.join(", ")}.`;
    }
    case "exempt":
      return `${whom} is exempt from all policies.`;
    case "open":
      return `${whom} is not refused by any policy or rule.`;
    case "unknown":
      return `${whom} has no counts.`;
  }
}

/** A slot, or units that are only held. */
const freeLater = "The next one is free when a request ends.";

function policySentences(state: ShownPolicyState, known: WhyFacts, nowMs: number): string[] {
  const { policy: name, used, limit, reset, resetSeconds, method, route, countedAs } = state;
  const policy = known.policies.find((each) => each.name === name);
  const part = [method, route].filter((each) => each !== null).join(" ");
  const free =
    reset === null
      ? freeLater
      : `The next one is free in ${durationText(resetSeconds ?? 0)}, at ${instantText(reset, nowMs)}.`;
  const settings = settingOf(name, limit, known).map(({ key, place }) => {
    return `The limit is ${key} in the configuration${place === null ? "" : `, at ${place}`}.`;
  });
  return [
    `Policy ${name}${part === "" ? "" : ` (${part})`}: ${used} of ${limit}${policy === undefined ? "" : ` ${periodOf(policy)}`} are used. ${free}`,
    ...settings,
    ...(countedAs === null
      ? []
      : [`Its ${countedAs} is counted in its place, because there was no room for its own counter.`]),
  ];
}

/** What else a person might be misled by. */
function besideSentences({ policies, isShared }: ClientState): string[] {
  const shadows = policies.filter(({ state, isShadow }) => state === "exhausted" && isShadow);
  const gaps = policies.flatMap(({ policy, gap }) => (gap === null ? [] : [`Policy ${policy}: ${gap}.`]));
  const exempt = policies.flatMap(({ policy, exemptBy }) => {
    return exemptBy === null
      ? []
      : [`Policy ${policy} exempts it: ${exemptBy.startsWith("rule ") ? exemptBy : `entry ${exemptBy}`}.`];
  });
  return [
    ...new Set([
      ...shadows.map(({ policy }) => `Policy ${policy} is used up too, and refuses nothing: it is a shadow.`),
      ...exempt,
      ...gaps,
      ...(isShared ? ["Other gateways count the same keys; these are the counts of this one."] : []),
    ]),
  ];
}

function periodOf({ kind, windowSeconds, per, timezone }: ListedPolicy): string {
  switch (kind) {
    case "sliding":
      return `in any ${formatDuration((windowSeconds ?? 0) * 1000)}`;
    case "calendar":
      return `in a ${per} (${timezone})`;
    case "concurrency":
      return "at once";
  }
}

/** A limit of its own comes from an override, or from a rule, which is told apart. */
function settingOf(name: string, limit: number, { policies, rules, config }: WhyFacts): WhyAnswer["settings"] {
  const policy = policies.find((each) => each.name === name);
  if (policy === undefined || rules.some(({ action, policy: of }) => action === "limit" && of === name)) return [];
  const leaf = limit !== policy.limit ? "overrides" : policy.kind === "concurrency" ? "concurrency" : "limit";
  const key = `policies.${name}.${leaf}`;
  const origin = config.origins.find((each) => `${each.key}.`.startsWith(`${key}.`));
  return [{ policy: name, key, place: origin?.place ?? null }];
}

// What to do

function commandsFor(known: WhyFacts, connection: ConnectionArguments): WhyAnswer["commands"] {
  const { named, rules, policies } = known;
  const state = stateOf(known);
  const remove = (rule: ShownRule) => ({
    does: `End rule ${rule.id}`,
    command: commandText(["rules", "remove", rule.id], connection),
  });
  if (state === "blocked") return blocksOf(rules).map(remove);
  const throttled = refusing(known).flatMap(
    ({ policy: name }) => policies.find((policy) => policy.name === name) ?? [],
  );
  const forgiven = throttled.filter(({ kind }) => kind !== "concurrency");
  const forgive = {
    does: "Forget what is counted for it",
    command: commandText(["forgive", wordOf(named)], connection),
  };
  return [
    ...(forgiven.length > 0 ? [forgive] : []),
    ...[...new Set(throttled)].flatMap((policy) => {
      const limit = Math.max(...refusing(known).flatMap((each) => (each.policy === policy.name ? [each.limit] : [])));
      return ruleCommands({ ...policy, limit }, named, connection);
    }),
    ...rules.filter(({ action }) => action !== "block").map(remove),
  ];
}

/** A rule cannot be about a hash, and a limit only about what the policy counts by. */
function ruleCommands({ name, limit, key }: ListedPolicy, named: AskedKey, connection: ConnectionArguments) {
  if (named.kind === "key") return [];
  const kinds = (named.kind === "client" ? ["client"] : [named.kind, "token", "subject"]) as AskedKey["kind"][];
  const kind = kinds.find((each) => key.includes(each));
  if (kind === undefined) return [];
  const whom = kind === named.kind || named.isBare ? wordOf(named) : keyOf({ kind, value: named.value });
  const raise = ["limit", whom, "--policy", name, "--limit", `${Math.min(2 * limit, 1_000_000_000)}`, "--for", "1h"];
  return [
    { does: `Give it more in policy ${name} for an hour`, command: commandText(raise, connection) },
    {
      does: `Limit it by policy ${name} no more for an hour`,
      command: commandText(["exempt", whom, "--policy", name, "--for", "1h"], connection),
    },
  ];
}

/** As it may be written on the command line. */
function wordOf(named: AskedKey): string {
  return named.isBare || named.kind === "client" ? named.value : keyOf(named);
}

// For people

/** A policy with methods or routes in its key has many. */
const maxRows = 20;

function whyLines({ explanation, client, refusals, commands }: WhyAnswer, nowMs: number): string[] {
  const policies = client?.policies ?? [];
  const shown = (policies.length > maxRows ? policies.filter(({ used }) => used > 0) : policies).slice(0, maxRows);
  const rows = shown.map(({ policy, method, route, state, isShadow, used, limit, reset, resetSeconds }) => [
    [policy, method, route].filter((part) => part !== null).join(" "),
    `${state}${isShadow ? " (shadow)" : ""}`,
    `${used}/${limit}`,
    reset === null ? "" : `in ${durationText(resetSeconds ?? 0)}, at ${instantText(reset, nowMs)}`,
  ]);
  return [
    ...explanation,
    ...(rows.length === 0 ? [] : ["", ...tableLines([["POLICY", "STATE", "USED", "MORE IS FREE"], ...rows], [2])]),
    ...refusalLines(refusals, nowMs),
    ...commands.flatMap(({ does, command }) => ["", `${does}:`, `  ${command}`]),
  ];
}

/** A client that chooses long paths must not push the ids out of the window. `why ID` has the whole one. */
const maxShownRequest = 60;

function shortened(request: string): string {
  return request.length <= maxShownRequest ? request : `${request.slice(0, maxShownRequest - 1)}…`;
}

function refusalLines(refusals: WhyAnswer["refusals"], nowMs: number): string[] {
  if (refusals.length === 0) return [];
  const rows = refusals.map((refusal) => [
    instantText(refusal.at, nowMs),
    `${refusal.status} ${refusal.reason ?? "broken off"}`,
    causeOf(refusal),
    shortened(`${refusal.method} ${refusal.path}`),
    refusal.id,
  ]);
  return ["", "Its last refusals and failures:", ...tableLines([["AT", "ANSWER", "BY", "REQUEST", "ID"], ...rows], [])];
}

/** The rule or the policy that refused the request, or how the upstream failed it; "" if the reason says it all. */
function causeOf({ reason, policy, rule, fault }: WhyAnswer["refusals"][number]): string {
  if (fault !== null) return fault.address === null ? fault.reason : `${fault.reason} at ${fault.address}`;
  return rule ?? (reason === "throttled" ? (policy?.policy ?? "") : "");
}
