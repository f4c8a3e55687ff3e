// The records in the shape of /v1: an asset in place of a manual account, names beside ids, and cleared/uncleared in place of
// reviewed/unreviewed.
import type { DatabaseSync } from "node:sqlite";
import type { TransactionRow } from "./transactions.ts";
import type { User } from "./user.ts";

export function v1User(user: User): Record<string, unknown> {
  return {
    user_id: user.id,
    user_name: user.name,
    user_email: user.email,
    account_id: user.account_id,
    budget_name: user.budget_name,
    primary_currency: user.primary_currency,
    api_key_label: user.api_key_label,
  };
}

export class V1Transactions {
  readonly #categoryNames: ReadonlyMap<number, string>;
  readonly #tagNames: ReadonlyMap<number, string>;

  constructor(database: DatabaseSync) {
    this.#categoryNames = namesIn(database, "SELECT id, name FROM categories");
    this.#tagNames = namesIn(database, "SELECT id, name FROM tags");
  }

  record(row: TransactionRow): Record<string, unknown> {
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
      category_name: row.category_id === null ? null : (this.#categoryNames.get(row.category_id) ?? null),
      notes: row.notes,
      status: v1Status(row.status),
      is_pending: row.is_pending === 1,
      created_at: row.created_at,
      updated_at: row.updated_at,
      asset_id: row.manual_account_id,
      plaid_account_id: row.plaid_account_id,
      tags: tagIds.map((id) => ({ id, name: this.#tagNames.get(id) ?? "" })),
      source: row.source,
      external_id: row.external_id,
    };
  }
}

function v1Status(status: TransactionRow["status"]): string {
  switch (status) {
    case "reviewed":
      return "cleared";
    case "unreviewed":
      return "uncleared";
    case "delete_pending":
      return status;
  }
}

function namesIn(database: DatabaseSync, sql: string): ReadonlyMap<number, string> {
  const rows = database.prepare(sql).all() as unknown as { readonly id: number; readonly name: string }[];
  return new Map(rows.map((row) => [row.id, row.name]));
}
