// What `headgate top` shows, and what a key or an answer makes of it: pure functions, without a terminal and without a gateway.
import type { ClientList, ClientState, ClientsWanted, Status } from "../../../admin/control-plane.ts";
import type { Key } from "./keys.ts";

export type Row = ClientList["clients"][number];

/** Requests in the last step of the history, in each second. */
export interface Rates {
  readonly admitted: number;
  readonly refused: number;
  /** Null: no request was forwarded. */
  readonly p99Seconds: number | null;
}

/** What the gateway answered last. */
export interface Answers {
  readonly status: Status;
  /** Null: no step has ended yet, or the gateway could not count in the last one. */
  readonly rates: Rates | null;
  readonly list: ClientList;
  /** Null: it was not asked for one. */
  readonly client: FoundClient | null;
  /** When it came, in Unix milliseconds. */
  readonly atMs: number;
}

/** One client. `state`: null until it is known. `missing`: why the gateway shows none. */
export interface FoundClient {
  readonly key: string;
  readonly state: ClientState | null;
  readonly missing: string | null;
}

export interface ShownClient extends FoundClient {
  /** Lines above the first that is shown. */
  readonly offset: number;
}

export interface TopState {
  readonly view: "clients" | "client" | "help";
  /** How the gateway is reached, for people. */
  readonly place: string;
  readonly sort: ClientsWanted["sort"];
  readonly policy: string | null;
  readonly search: string | null;
  /** The filter while it is typed; null otherwise. */
  readonly typed: string | null;
  /** The index of a row. */
  readonly selected: number;
  /** Rows above the first that is shown. */
  readonly offset: number;
  /** The id of the row that stays selected wherever it moves. */
  readonly followed: string | null;
  readonly isPaused: boolean;
  /** Of the view of one client. */
  readonly client: ShownClient | null;
  readonly answers: Answers | null;
  /** Why the last call failed, and since when they do. */
  readonly failure: { readonly message: string; readonly since: string } | null;
  /** About the last key. */
  readonly notice: string | null;
}

/** What the program does after a key. refresh: asks the gateway now. */
export type Effect = "none" | "refresh" | "redraw" | "suspend" | "quit";

/** As long as the API takes one. */
const maxSearchLength = 128;
/** As many as the API lists. */
const maxRows = 1000;
/** A longer list costs a gateway with a million keys several times as much, each time. */
const maxSoughtRows = 250;

export function firstState(place: string, wanted: Pick<ClientsWanted, "policy" | "sort" | "search">): TopState {
  const { policy, sort, search } = wanted;
  return {
    ...{ view: "clients", place, sort, policy, search, typed: null, selected: 0, offset: 0, followed: null },
    ...{ isPaused: false, client: null, answers: null, failure: null, notice: null },
  };
}

export function rowsOf({ answers }: TopState): readonly Row[] {
  return answers?.list.clients ?? [];
}

/** A policy may have several keys of one name. */
export function rowId({ key, name, policy, method, route }: Row): string {
  return JSON.stringify([key, name, policy, method, route]);
}

/** The row that is followed; -1: it is not listed, or none is followed. */
export function followedIndex(state: TopState): number {
  return state.followed === null ? -1 : rowsOf(state).findIndex((row) => rowId(row) === state.followed);
}

/** How many rows are asked for: two pages from the selected one, and more if the followed one is not among them. */
export function wantedRows(state: TopState, pageRows: number): number {
  const shown = Math.max(state.offset, state.selected) + 2 * Math.max(1, pageRows);
  const isSought = state.followed !== null && followedIndex(state) === -1;
  return Math.min(maxRows, isSought ? Math.max(shown, maxSoughtRows) : shown);
}

/** The least change of the offset that shows the selected row. */
export function scrolled(offset: number, selected: number, pageRows: number): number {
  const page = Math.max(1, pageRows);
  return Math.max(0, Math.min(selected, Math.max(offset, selected - page + 1)));
}

/** What was answered before is still shown. */
export function withFailure(state: TopState, message: string, since: string): TopState {
  return { ...state, failure: { message, since: state.failure?.since ?? since } };
}

/** The selection stays where it is, or with the row that is followed. A client that is no longer shown is left out. */
export function withAnswers(state: TopState, given: Answers): TopState {
  const answers = { ...given, list: { ...given.list, clients: ordered(given.list.clients, state.sort) } };
  const next = { ...state, answers, failure: null };
  const index = followedIndex(next);
  const last = Math.max(0, answers.list.clients.length - 1);
  const isShown = state.client !== null && state.client.key === answers.client?.key;
  return {
    ...next,
    selected: index === -1 ? Math.min(state.selected, last) : index,
    client: isShown ? { ...state.client, ...answers.client } : state.client,
  };
}

/** Rows of the same use stay in one order, whatever the order in which the gateway has found them. */
function ordered(rows: readonly Row[], sort: TopState["sort"]): Row[] {
  const measure = {
    used: ({ used }: Row) => used,
    refused: ({ refused }: Row) => refused?.count ?? 0,
    recent: ({ last }: Row) => (last === null ? 0 : Date.parse(last)),
  }[sort];
  const ids = new Map(rows.map((row) => [row, rowId(row)]));
  const idOf = (row: Row): string => ids.get(row) ?? "";
  return rows.toSorted((a, b) => measure(b) - measure(a) || (idOf(a) < idOf(b) ? -1 : 1));
}

/** `pageRows`: how many rows are shown. */
export function pressed(state: TopState, key: Key, pageRows: number): [TopState, Effect] {
  if (key.name === "interrupt") return [state, "quit"];
  if (key.name === "suspend") return [state, "suspend"];
  if (key.name === "redraw") return [state, "redraw"];
  const seen = { ...state, notice: null };
  if (seen.typed !== null) return pressedInFilter(seen, seen.typed, key);
  if (seen.view === "help") return [{ ...seen, view: "clients" }, "none"];
  return seen.view === "client" ? pressedInClient(seen, key, pageRows) : pressedInClients(seen, key, pageRows);
}

function pressedInFilter(state: TopState, typed: string, key: Key): [TopState, Effect] {
  switch (key.name) {
    case "enter":
      return [{ ...state, typed: null, search: typed === "" ? null : typed, selected: 0, offset: 0 }, "refresh"];
    case "escape":
      return [{ ...state, typed: null }, "none"];
    case "backspace":
      return [{ ...state, typed: [...typed].slice(0, -1).join("") }, "none"];
    case "character": {
      const longer = typed + key.character;
      return [longer.length > maxSearchLength ? state : { ...state, typed: longer }, "none"];
    }
    default:
      return [state, "none"];
  }
}

function pressedInClient(state: TopState, key: Key, pageRows: number): [TopState, Effect] {
  const { client } = state;
  const isEnd = ["escape", "enter"].includes(key.name) || (key.name === "character" && key.character === "q");
  if (isEnd || client === null) return [{ ...state, view: "clients", client: null }, "refresh"];
  if (isPause(key)) return pausedOrNot(state);
  const offset = movedTo(key, client.offset, pageRows, Number.MAX_SAFE_INTEGER);
  return [offset === null ? state : { ...state, client: { ...client, offset } }, "none"];
}

function pressedInClients(state: TopState, key: Key, pageRows: number): [TopState, Effect] {
  const to = movedTo(key, state.selected, pageRows, rowsOf(state).length - 1);
  if (to !== null) {
    const moved = { ...state, selected: to, offset: scrolled(state.offset, to, pageRows), followed: null };
    // Rows beyond those that were asked for may be shown soon.
    const needsMore = !(state.answers?.list.isComplete ?? true) && to + pageRows >= rowsOf(state).length;
    return [moved, needsMore ? "refresh" : "none"];
  }
  if (isPause(key)) return pausedOrNot(state);
  if (key.name === "enter") return opened(state);
  if (key.name === "escape") {
    return state.search === null ? [state, "none"] : [{ ...state, search: null, selected: 0, offset: 0 }, "refresh"];
  }
  return key.name === "character" ? command(state, key.character) : [state, "none"];
}

function command(state: TopState, character: string): [TopState, Effect] {
  switch (character) {
    case "u":
      return [sorted(state, "used"), "refresh"];
    case "r":
      return [sorted(state, "refused"), "refresh"];
    case "n":
      return [sorted(state, "recent"), "refresh"];
    case "/":
      return [{ ...state, typed: state.search ?? "" }, "none"];
    case "f": {
      const row = rowsOf(state)[state.selected];
      return [{ ...state, followed: state.followed === null && row !== undefined ? rowId(row) : null }, "none"];
    }
    case "?":
      return [{ ...state, view: "help" }, "none"];
    case "q":
      return [state, "quit"];
    default:
      return [state, "none"];
  }
}

function sorted(state: TopState, sort: TopState["sort"]): TopState {
  return { ...state, sort, ...(state.followed === null ? { selected: 0, offset: 0 } : {}) };
}

function opened(state: TopState): [TopState, Effect] {
  const row = rowsOf(state)[state.selected];
  if (row === undefined) return [state, "none"];
  if (row.key === null) return [{ ...state, notice: `${row.name} cannot be asked for by its name` }, "none"];
  return [{ ...state, view: "client", client: { key: row.key, state: null, missing: null, offset: 0 } }, "refresh"];
}

function isPause(key: Key): boolean {
  return key.name === "character" && [" ", "p"].includes(key.character);
}

function pausedOrNot(state: TopState): [TopState, Effect] {
  return [{ ...state, isPaused: !state.isPaused }, state.isPaused ? "refresh" : "none"];
}

/** Null for a key that does not move. */
function movedTo(key: Key, from: number, pageRows: number, last: number): number | null {
  const page = Math.max(1, pageRows);
  const to = { up: from - 1, down: from + 1, pageUp: from - page, pageDown: from + page, home: 0, end: last }[
    key.name as string
  ];
  return to === undefined ? null : Math.max(0, Math.min(to, last));
}
