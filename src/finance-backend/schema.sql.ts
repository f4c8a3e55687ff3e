// The tables, and the two marks that tell our file from any other SQLite file. Tables are STRICT: what is read back has
// the type that is declared here. Times are canonical UTC texts and dates YYYY-MM-DD, so that text order is time order.

/** "HgFB" in ASCII, as PRAGMA application_id. */
export const applicationId = 0x48674642;

/** Raised with every change of the tables or of the sample data: an older file is refused instead of misread. */
export const schemaVersion = 1;

export const schema = `
CREATE TABLE users (
  id INTEGER PRIMARY KEY, name TEXT NOT NULL, email TEXT NOT NULL, account_id INTEGER NOT NULL,
  budget_name TEXT NOT NULL, primary_currency TEXT NOT NULL, api_key_label TEXT
) STRICT;

CREATE TABLE categories (
  id INTEGER PRIMARY KEY, name TEXT NOT NULL, description TEXT,
  is_income INTEGER NOT NULL, exclude_from_budget INTEGER NOT NULL, exclude_from_totals INTEGER NOT NULL,
  group_id INTEGER REFERENCES categories (id), is_group INTEGER NOT NULL,
  archived INTEGER NOT NULL, archived_at TEXT, "order" INTEGER, collapsed INTEGER NOT NULL,
  created_at TEXT NOT NULL, updated_at TEXT NOT NULL
) STRICT;

CREATE TABLE accounts (
  id INTEGER PRIMARY KEY, kind TEXT NOT NULL CHECK (kind IN ('manual', 'plaid')), name TEXT NOT NULL
) STRICT;

CREATE TABLE tags (id INTEGER PRIMARY KEY, name TEXT NOT NULL) STRICT;

CREATE TABLE transactions (
  id INTEGER PRIMARY KEY, date TEXT NOT NULL, amount TEXT NOT NULL, currency TEXT NOT NULL, to_base REAL NOT NULL,
  payee TEXT NOT NULL, original_name TEXT, category_id INTEGER REFERENCES categories (id), notes TEXT,
  status TEXT NOT NULL CHECK (status IN ('reviewed', 'unreviewed', 'delete_pending')),
  is_pending INTEGER NOT NULL,
  manual_account_id INTEGER REFERENCES accounts (id), plaid_account_id INTEGER REFERENCES accounts (id),
  source TEXT NOT NULL, external_id TEXT, created_at TEXT NOT NULL, updated_at TEXT NOT NULL,
  CHECK (manual_account_id IS NULL OR plaid_account_id IS NULL)
) STRICT;
CREATE INDEX transactions_newest_first ON transactions (date DESC, id DESC);

CREATE TABLE transaction_tags (
  transaction_id INTEGER NOT NULL REFERENCES transactions (id), tag_id INTEGER NOT NULL REFERENCES tags (id),
  PRIMARY KEY (transaction_id, tag_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE crypto_synced (
  id INTEGER PRIMARY KEY, provider TEXT NOT NULL, status TEXT NOT NULL, created_by_name TEXT,
  display_name TEXT, last_import TEXT, created_at TEXT NOT NULL, updated_at TEXT NOT NULL
) STRICT;

CREATE TABLE crypto_synced_balances (
  crypto_synced_id INTEGER NOT NULL REFERENCES crypto_synced (id), position INTEGER NOT NULL,
  name TEXT NOT NULL, display_name TEXT, balance TEXT NOT NULL, symbol TEXT NOT NULL, coingecko_id TEXT,
  to_base REAL, balance_as_of TEXT, exchange_rate_as_of TEXT, updated_at TEXT NOT NULL,
  PRIMARY KEY (crypto_synced_id, position)
) STRICT, WITHOUT ROWID;
`;
