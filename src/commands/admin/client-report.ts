// `headgate clients` and `headgate forgive`: who has used what, and that it is forgotten.
import type { ClientList, ClientsWanted, ForgivenAnswer } from "../../admin/control-plane.ts";
import { systemClock } from "../../core/clock.ts";
import { CommandError, exitCodes } from "../io.ts";
import type { AdminClient } from "./admin-client.ts";
import type { ConnectedGateway } from "./connect.ts";
import { type AskedKey, type ConnectionArguments, keyOf } from "./invocation.ts";
import { commandText, counted, durationText, instantText, type Report, refusedText, tableLines } from "./printed.ts";
import { blocksOf } from "./rule-report.ts";

export async function reportClients({ client }: ConnectedGateway, wanted: ClientsWanted): Promise<Report> {
  const answer = await client.clients(wanted);
  return { answer, lines: () => clientLines(answer, wanted, systemClock.wallMs()) };
}

function clientLines(list: ClientList, { limit }: ClientsWanted, nowMs: number): string[] {
  const { clients, refusedSince, isComplete, isShared } = list;
  if (clients.length === 0) return ["No key is counted."];
  const rows = clients.map(({ key, name, seen, policy, used, limit: own, resetSeconds, refused, method, route }) => [
    ...[key ?? name, [policy, method, route].filter((part) => part !== null).join(" "), `${used}/${own}`],
    ...[resetSeconds === null ? "" : durationText(resetSeconds), refusedText(refused), seen ?? ""],
  ]);
  const hasSeen = clients.some(({ seen }) => seen !== null);
  const head = ["KEY", "POLICY", "USED", "MORE IN", "THROTTLED", hasSeen ? "LAST SEEN AS" : ""];
  return [
    ...tableLines([head, ...rows], [2, 3, 4]),
    ...(isComplete ? [] : [`There may be more than ${limit}: see --limit.`]),
    ...(refusedSince === null ? [] : [`Throttled requests are counted since ${instantText(refusedSince, nowMs)}.`]),
    ...(isShared ? ["Other gateways count the same keys; these are the counts of this one."] : []),
  ];
}

export async function reportForgiven(
  { client }: ConnectedGateway,
  whom: AskedKey,
  connection: ConnectionArguments,
): Promise<Report> {
  const answer = await client.forgive(keyOf(whom));
  if (answer.policies.length === 0) {
    const why = answer.untouched.map(({ policy, why: reason }) => `policy ${policy}: ${reason}`);
    throw new CommandError(exitCodes.refused, `nothing is counted for ${answer.key}`, why);
  }
  const lines = forgivenLines(answer);
  return { answer, lines: () => lines, warnings: await blockWarnings(client, answer.key, connection) };
}

/** Who is blocked stays so. That this cannot be asked undoes no forgiveness. */
async function blockWarnings(client: AdminClient, key: string, connection: ConnectionArguments): Promise<string[]> {
  try {
    const { rules } = await client.client(key);
    return blocksOf(rules).map(({ id }) => {
      return `it is still blocked by rule ${id}: ${commandText(["rules", "remove", id], connection)}`;
    });
  } catch (error) {
    const why =
      error instanceof CommandError ? error.message.replace(/\.$/, "") : "the gateway's answer cannot be read";
    return [`whether a rule still blocks it is not known: ${why}. Ask again: ${commandText(["why", key], connection)}`];
  }
}

function forgivenLines({ key, policies, network, untouched, shared }: ForgivenAnswer): string[] {
  const gaps = policies.flatMap(({ policy, gap }) => (gap === null ? [] : [`policy ${policy}: ${gap}; they count on`]));
  return [
    `${key} is forgiven.`,
    ...(network === null ? [] : [`It was counted with its whole network, so all of ${network} is forgiven.`]),
    ...policies.map(({ policy, units }) => `policy ${policy}: ${counted(units, "unit")} forgotten`),
    ...gaps,
    ...untouched.map(({ policy, why }) => `policy ${policy} counts on: ${why}`),
    ...(shared === true ? ["Its counter in the store is emptied, and the other gateways hear of it, within 2 s."] : []),
    ...(shared === false ? ["The store is away: its counter there is emptied when it is back."] : []),
  ];
}
