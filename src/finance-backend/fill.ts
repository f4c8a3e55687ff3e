// Writes the tables and the sample data into an empty database, and at last the mark of this program. The caller holds the
// transaction. Table and column names come only from this file; values are always bound.
import type { DatabaseSync } from "node:sqlite";
import {
  accounts,
  categories,
  categoriesCreatedAt,
  categoryArchivedAt,
  cryptoSynced,
  tags,
  user,
} from "./sample-catalog.ts";
import { sampleTransactions } from "./sample-transactions.ts";
import { applicationId, schema, schemaVersion } from "./schema.sql.ts";

export function fillWithSample(database: DatabaseSync): void {
  database.exec(schema);
  insertAll(database, "users", [user]);
  insertAll(database, "categories", categories.map(categoryRow));
  insertAll(database, "accounts", Object.values(accounts));
  insertAll(
    database,
    "tags",
    tags.map(({ id, name }) => ({ id, name })),
  );
  fillTransactions(database);
  fillCrypto(database);
  database.exec(`PRAGMA application_id = ${applicationId}; PRAGMA user_version = ${schemaVersion}`);
}

function categoryRow(category: (typeof categories)[number]): Row {
  return {
    id: category.id,
    name: category.name,
    description: category.description ?? null,
    is_income: Number(category.income ?? false),
    exclude_from_budget: Number(category.outsideTotals ?? false),
    exclude_from_totals: Number(category.outsideTotals ?? false),
    group_id: category.groupId,
    is_group: Number(category.isGroup),
    archived: Number(category.archived ?? false),
    archived_at: category.archived ? categoryArchivedAt : null,
    order: category.order,
    collapsed: 0,
    created_at: categoriesCreatedAt,
    updated_at: category.archived ? categoryArchivedAt : categoriesCreatedAt,
  };
}

function fillTransactions(database: DatabaseSync): void {
  const sample = sampleTransactions();
  const rows = sample.map((entry) => ({
    id: entry.id,
    date: entry.date,
    amount: entry.amount,
    currency: entry.currency,
    to_base: entry.toBase,
    payee: entry.payee,
    original_name: entry.originalName,
    category_id: entry.categoryId,
    notes: entry.notes,
    status: entry.status,
    is_pending: Number(entry.isPending),
    manual_account_id: entry.manualAccountId,
    plaid_account_id: entry.plaidAccountId,
    source: entry.source,
    external_id: entry.externalId,
    created_at: entry.createdAt,
    updated_at: entry.updatedAt,
  }));
  insertAll(database, "transactions", rows);
  const tagged = sample.flatMap((entry) => entry.tagIds.map((tagId) => ({ transaction_id: entry.id, tag_id: tagId })));
  insertAll(database, "transaction_tags", tagged);
}

function fillCrypto(database: DatabaseSync): void {
  for (const account of cryptoSynced) {
    const { id, provider, displayName: display_name, createdAt: created_at, updatedAt: updated_at } = account;
    const row = { id, provider, status: "active", created_by_name: user.name, display_name, created_at, updated_at };
    insertAll(database, "crypto_synced", [{ ...row, last_import: updated_at }]);
    const balances = account.balances.map((balance, position) => ({
      crypto_synced_id: id,
      position,
      name: balance.name,
      display_name: null,
      balance: balance.balance,
      symbol: balance.symbol,
      coingecko_id: balance.coingeckoId,
      to_base: balance.toBase,
      balance_as_of: updated_at,
      exchange_rate_as_of: updated_at,
      updated_at,
    }));
    insertAll(database, "crypto_synced_balances", balances);
  }
}

type Row = Record<string, string | number | null>;
type Table =
  | "users"
  | "categories"
  | "accounts"
  | "tags"
  | "transactions"
  | "transaction_tags"
  | "crypto_synced"
  | "crypto_synced_balances";

function insertAll(database: DatabaseSync, table: Table, rows: readonly Readonly<Row>[]): void {
  const columns = Object.keys(rows[0] ?? {});
  const names = columns.map((column) => `"${column}"`).join(", ");
  const statement = database.prepare(`INSERT INTO ${table} (${names}) VALUES (${columns.map(() => "?").join(", ")})`);
  for (const row of rows) statement.run(...columns.map((column) => row[column] ?? null));
}
