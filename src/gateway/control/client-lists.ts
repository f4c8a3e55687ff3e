// Keys with what they have used and how often they were refused, in the form of the admin API. A page of many keys is read in
// portions, so that no turn of the event loop is long.
import { setImmediate } from "node:timers/promises";
import type { ClientList, ClientsWanted } from "../../admin/control-plane.ts";
import type { ListedTokens } from "../../core/authentication.ts";
import { counterText } from "../../core/counter-key.ts";
import type { ForgivenKey } from "../../core/rules.ts";
import type { Settings } from "../../core/settings.ts";
import type { ListQuery } from "../../limits/key-listing.ts";
import type { MostRefused, Recent } from "../../telemetry/recent/recent.ts";
import type { Clients } from "../clients.ts";

export interface ClientListOptions {
  readonly clients: Clients;
  readonly recent: Pick<Recent, "refused">;
  /** In force. */
  readonly settings: () => Settings;
  readonly listedTokens: () => ListedTokens | null;
  /** Whether other gateways count the same keys: what they have counted is not known here. */
  readonly isShared: () => boolean;
  readonly wallMs: () => number;
}

type ListedClient = Omit<ClientList["clients"][number], "actions">;

/** `actions` are for the caller to add. */
interface Counted extends Omit<ClientList, "clients"> {
  readonly clients: readonly ListedClient[];
}

/** How many keys are read in one turn of the event loop. */
const keysInTurn = 16;

export function listClients(options: ClientListOptions, wanted: ClientsWanted): Promise<Counted> {
  const { sort } = wanted;
  return sort === "refused" ? listByRefusals(options, wanted) : listByUse(options, wanted, sort);
}

async function listByUse(
  { clients, recent, settings, isShared, wallMs }: ClientListOptions,
  { policy, search, limit }: ClientsWanted,
  sort: ListQuery["sort"],
): Promise<Counted> {
  const listed = await clients.list({ policy, search: search ?? "", limit, sort });
  const names = [...new Set(listed.map((key) => key.policy))];
  const refused = new Map(names.map((name) => [name, recent.refused(name)]));
  const { ipv6Prefix } = settings().clientAddress;
  const counts = new Map(names.map((name) => [name, refusalsByKey(refused.get(name), ipv6Prefix)]));
  return {
    clients: listed.map(({ id, name, policy: own, coarse, method, route, lastMs, ...use }) => ({
      ...{ key: id, name, policy: own, countedAs: coarse, method, route, ...usageOf(use, wallMs()) },
      last: lastMs === null ? null : new Date(lastMs).toISOString(),
      refused: counts.get(own)?.get(id ?? "") ?? null,
      seen: null,
    })),
    refusedSince: sinceOf([...refused.values()]),
    isComplete: listed.length < limit,
    isShared: isShared(),
  };
}

export function refusalsByKey(most: MostRefused | undefined, ipv6Prefix: number) {
  return new Map(
    most?.keys.map(({ key, count, error }) => [counterText(key, ipv6Prefix), { count, error }] as const) ?? [],
  );
}

async function listByRefusals(
  { clients, recent, settings, isShared, wallMs, listedTokens }: ClientListOptions,
  { policy: only, search, limit }: ClientsWanted,
): Promise<Counted> {
  const { policies, clientAddress } = settings();
  const asked = policies.filter(({ name }) => only === null || name === only);
  const lists = asked.map((policy) => ({ policy, most: recent.refused(policy.name) }));
  const names = listedTokens()?.names() ?? new Set<string>();
  const found = lists
    .flatMap(({ policy, most }) =>
      most.keys.map(({ key, count, error, seen }) => {
        const isOfToken = policy.key.length === 1 && ["token", "subject"].includes(policy.key[0]?.kind ?? "");
        const token = isOfToken && seen?.subject != null && names.has(seen.subject) ? seen.subject : null;
        const id = token === null ? counterText(key, clientAddress.ipv6Prefix) : `token:${token}`;
        const who = seen && (seen.subject ?? counterText(seen.client, clientAddress.ipv6Prefix));
        return { policy, id, count, error, seen: who };
      }),
    )
    .filter(({ id, seen }) => search === null || matches(id, search) || seen?.startsWith(search) === true)
    .sort((a, b) => b.count - a.count);
  const shown: ListedClient[] = [];
  for (const [i, { policy, id, count, error, seen }] of found.slice(0, limit).entries()) {
    if (i % keysInTurn === keysInTurn - 1) await setImmediate();
    const state = await clients.state(keyOf(id));
    const key = state?.policies.find((each) => each.policy.name === policy.name)?.keys[0];
    const { limit: own, remaining } = key ?? { limit: policy.limit, remaining: policy.limit };
    shown.push({
      ...{ key: id, name: id.slice(id.indexOf(":") + 1), policy: policy.name },
      ...{ countedAs: key?.coarse ?? null, method: null, route: null },
      ...usageOf({ limit: own, used: key?.units ?? 0, remaining, resetMs: key?.resetMs ?? null }, wallMs()),
      ...{ last: null, refused: { count, error }, seen },
    });
  }
  return {
    clients: shown,
    refusedSince: sinceOf(lists.map(({ most }) => most)),
    isComplete: found.length <= limit,
    isShared: isShared(),
  };
}

function matches(id: string, search: string): boolean {
  return id.startsWith(search) || id.slice(id.indexOf(":") + 1).startsWith(search);
}

function keyOf(id: string): ForgivenKey {
  const [kind = ""] = id.split(":", 1);
  return { kind: kind as ForgivenKey["kind"], value: id.slice(kind.length + 1) };
}

export function sinceOf(lists: readonly MostRefused[]): string | null {
  const since = Math.max(...lists.map(({ sinceMs }) => sinceMs));
  return Number.isFinite(since) ? new Date(since).toISOString() : null;
}

interface Usage {
  readonly limit: number;
  readonly used: number;
  readonly remaining: number;
  /** Null: not known. */
  readonly resetMs: number | null;
}

export function usageOf({ limit, used, remaining, resetMs }: Usage, nowMs: number) {
  const isUsed = used > 0 && resetMs !== null;
  return {
    ...{ limit, used, remaining },
    reset: isUsed ? new Date(resetMs).toISOString() : null,
    resetSeconds: isUsed ? Math.max(0, Math.round(resetMs - nowMs) / 1000) : null,
  };
}
