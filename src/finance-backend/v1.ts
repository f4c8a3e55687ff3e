// The records in the shape of /v1: an asset in place of a manual account, names beside ids, and cleared/uncleared in place of
// reviewed/unreviewed.
import type { DatabaseSync } from "node:sqlite";
import type { TransactionRow } from "./transactions.ts";
import type { User } from "./user.ts";

export function v1User(user: User): Record<string, unknown> {
  const { id, name, email, ...rest } = user;
  return { user_id: id, user_name: name, user_email: email, ...rest };
}

/** Returns the function that makes a record of a row. */
export function v1Records(database: DatabaseSync): (row: TransactionRow) => Record<string, unknown> {
  const categoryNames = namesIn(database, "SELECT id, name FROM categories");
  const tagNames = namesIn(database, "SELECT id, name FROM tags");
  return (row) => {
    const tagIds: number[] = JSON.parse(row.tag_ids);
    return {
      id: row.id,
      date: row.date,
      amount: row.amount,
      currency: row.currency,
      to_base: row.to_base,
      payee: row.payee,
      original_name: row.original_name,
      category_id: row.category_id,
      category_name: row.category_id === null ? null : (categoryNames.get(row.category_id) ?? null),
      notes: row.notes,
      status: statuses[row.status],
      is_pending: row.is_pending === 1,
      created_at: row.created_at,
      updated_at: row.updated_at,
      asset_id: row.manual_account_id,
      plaid_account_id: row.plaid_account_id,
      tags: tagIds.map((id) => ({ id, name: tagNames.get(id) ?? "" })),
      source: row.source,
      external_id: row.external_id,
    };
  };
}

const statuses = { reviewed: "cleared", unreviewed: "uncleared", delete_pending: "delete_pending" } as const;

function namesIn(database: DatabaseSync, sql: string): ReadonlyMap<number, string> {
  const rows = database.prepare(sql).all() as unknown as { readonly id: number; readonly name: string }[];
  return new Map(rows.map((row) => [row.id, row.name]));
}
