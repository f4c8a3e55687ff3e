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
  insertAll(database, "tags", tags);
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
  const rows = sample.map(({ tagIds, ...entry }) => columnsOf({ ...entry, isPending: Number(entry.isPending) }));
  insertAll(database, "transactions", rows);
  const tagged = sample.flatMap((entry) => entry.tagIds.map((tagId) => ({ transaction_id: entry.id, tag_id: tagId })));
  insertAll(database, "transaction_tags", tagged);
}

function fillCrypto(database: DatabaseSync): void {
  for (const { balances, ...account } of cryptoSynced) {
    const { id, updatedAt } = account;
    const row = { ...account, status: "active", createdByName: user.name, lastImport: updatedAt };
    insertAll(database, "crypto_synced", [columnsOf(row)]);
    const times = { balanceAsOf: updatedAt, exchangeRateAsOf: updatedAt, updatedAt };
    const rows = balances.map((balance, position) =>
      columnsOf({ cryptoSyncedId: id, position, ...balance, displayName: null, ...times }),
    );
    insertAll(database, "crypto_synced_balances", rows);
  }
}

type Value = string | number | null;
type Row = Record<string, Value>;

/** The names of columns are those of the sample in snake case. */
function columnsOf(record: Readonly<Row>): Row {
  const snake = (name: string): string => name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
  return Object.fromEntries(Object.entries(record).map(([name, value]) => [snake(name), value]));
}

function insertAll(database: DatabaseSync, table: string, rows: readonly Readonly<Row>[]): void {
  const columns = Object.keys(rows[0] ?? {});
  const names = columns.map((column) => `"${column}"`).join(", ");
  const statement = database.prepare(`INSERT INTO ${table} (${names}) VALUES (${columns.map(() => "?").join(", ")})`);
  for (const row of rows) statement.run(...columns.map((column) => row[column] ?? null));
}
