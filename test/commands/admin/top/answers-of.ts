// Answers of a gateway for tests of `headgate top`.
import type { ClientState, Status } from "../../../../src/admin/control-plane.ts";
import { type Key, KeyReader } from "../../../../src/commands/admin/top/keys.ts";
import {
  type Answers,
  firstState,
  pressed,
  type Row,
  type TopState,
} from "../../../../src/commands/admin/top/state.ts";
import { status } from "../../../admin/fake-plane.ts";

export const atMs = Date.parse("2026-11-24T12:00:00.000Z");

export function row(name: string, used: number, changes: Partial<Row> = {}): Row {
  return {
    ...{ key: `client:${name}`, name, policy: "per-client", countedAs: null, method: null, route: null },
    ...{ limit: 100, used, remaining: 100 - used, reset: "2026-11-24T12:00:30.000Z", resetSeconds: 30 },
    ...{ last: "2026-11-24T11:59:59.000Z", refused: null, seen: null, actions: [] },
    ...changes,
  };
}

export interface Told {
  readonly rows?: readonly Row[];
  readonly isComplete?: boolean;
  readonly isShared?: boolean;
  readonly status?: Partial<Status> & { readonly trial?: unknown };
  readonly client?: Answers["client"];
  readonly rates?: Answers["rates"];
}

export function answersOf({ rows = [], isComplete = true, isShared = false, client = null, ...told }: Told): Answers {
  return {
    status: { ...status, trial: null, ...told.status } as Status,
    rates: told.rates ?? null,
    list: { clients: [...rows], refusedSince: null, isComplete, isShared },
    ...{ client, atMs },
  };
}

export function clientState(key: string, changes: Partial<ClientState> = {}): ClientState {
  return { key, policies: [], rules: [], isShared: false, ...changes };
}

export function stateOf(changes: Partial<TopState> = {}): TopState {
  return { ...firstState("/run/admin.sock", { policy: null, sort: "used", search: null }), ...changes };
}

export const page = 10;

/** What text, sent as keys, makes of a state, and the effects that are some. */
export function typed(state: TopState, text: string): [TopState, string[]] {
  const reader = new KeyReader();
  const keys: Key[] = [...reader.read(new TextEncoder().encode(text)), ...reader.flush()];
  const effects: string[] = [];
  let now = state;
  for (const key of keys) {
    const [next, effect] = pressed(now, key, page);
    now = next;
    if (effect !== "none") effects.push(effect);
  }
  return [now, effects];
}
