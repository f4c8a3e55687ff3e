// The listing as one would write it without a database: filter the records in memory, sort them, cut a slice out.
import { openDatabase } from "../../src/finance-backend/database.ts";

interface SampleTransaction {
  readonly id: number;
  readonly date: string;
  readonly amount: string;
  readonly currency: "usd" | "eur";
  readonly toBase: number;
  readonly payee: string;
  readonly originalName: string | null;
  readonly categoryId: number | null;
  readonly notes: string | null;
  readonly status: "reviewed" | "unreviewed" | "delete_pending";
  readonly isPending: boolean;
  readonly manualAccountId: number | null;
  readonly plaidAccountId: number | null;
  readonly source: "plaid" | "csv" | "manual";
  readonly externalId: string | null;
  readonly createdAt: string;
  readonly updatedAt: string;
  readonly tagIds: readonly number[];
}

const database = openDatabase(null);
/** A table as it is, with the names of columns in camel case. */
function rowsOf(table: string): Record<string, unknown>[] {
  const camel = (name: string): string => name.replaceAll(/_./g, ([, letter = ""]) => letter.toUpperCase());
  const rows = database.prepare(`SELECT * FROM ${table}`).all();
  return rows.map((row) => Object.fromEntries(Object.entries(row).map(([name, value]) => [camel(name), value])));
}

type Named = { readonly id: number; readonly name: string };
export const tags = rowsOf("tags") as unknown as readonly Named[];
export const categories = rowsOf("categories") as unknown as readonly (Named & {
  readonly groupId: number | null;
  readonly isGroup: number;
})[];
const tagged = Map.groupBy(rowsOf("transaction_tags"), ({ transactionId }) => transactionId);

/** Query parameters by their names in the API. */
export interface Filter {
  start_date?: string;
  end_date?: string;
  manual_account_id?: number;
  plaid_account_id?: number;
  category_id?: number;
  tag_id?: number;
  status?: string;
  is_pending?: boolean;
  created_since?: string;
  updated_since?: string;
}

export const allTransactions = rowsOf("transactions").map((row) => ({
  ...row,
  isPending: row["isPending"] === 1,
  tagIds: (tagged.get(row["id"]) ?? []).map(({ tagId }) => tagId),
})) as unknown as readonly SampleTransaction[];

export function matching(filter: Filter): SampleTransaction[] {
  return allTransactions
    .filter((entry) => matches(entry, filter))
    .sort((left, right) => (left.date === right.date ? right.id - left.id : left.date < right.date ? 1 : -1));
}

export function queryOf(filter: Filter, page: { limit?: number; offset?: number } = {}): string {
  const given = Object.entries({ ...filter, ...page }).map(([name, value]) => [name, String(value)]);
  return new URLSearchParams(given).toString();
}

function matches(entry: SampleTransaction, filter: Filter): boolean {
  return (
    (filter.start_date === undefined || entry.date >= filter.start_date) &&
    (filter.end_date === undefined || entry.date <= filter.end_date) &&
    (filter.manual_account_id === undefined || (entry.manualAccountId ?? 0) === filter.manual_account_id) &&
    (filter.plaid_account_id === undefined || (entry.plaidAccountId ?? 0) === filter.plaid_account_id) &&
    (filter.category_id === undefined || inCategory(entry.categoryId, filter.category_id)) &&
    (filter.tag_id === undefined || entry.tagIds.includes(filter.tag_id)) &&
    (filter.status === undefined || entry.status === filter.status) &&
    (filter.is_pending === undefined || entry.isPending === filter.is_pending) &&
    (filter.created_since === undefined || Date.parse(entry.createdAt) >= Date.parse(filter.created_since)) &&
    (filter.updated_since === undefined || Date.parse(entry.updatedAt) >= Date.parse(filter.updated_since))
  );
}

function inCategory(categoryId: number | null, wanted: number): boolean {
  if (wanted === 0) return categoryId === null;
  return categoryId === wanted || categories.some((child) => child.id === categoryId && child.groupId === wanted);
}
