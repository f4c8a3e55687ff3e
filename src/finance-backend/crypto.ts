// Synced crypto accounts. A refresh returns the account unchanged: the sample has no provider, and an account that changed with
// each refresh would make the data differ from start to start.
import type { DatabaseSync } from "node:sqlite";

/** Returns the function that refreshes an account; null: there is none with this id. */
export function cryptoAccounts(database: DatabaseSync): (id: number) => Record<string, unknown> | null {
  const account = database.prepare(
    `SELECT id, provider, status, created_by_name, created_at, updated_at, last_import, display_name
     FROM crypto_synced WHERE id = :id`,
  );
  const balances = database.prepare(
    `SELECT name, display_name, balance, symbol, coingecko_id, to_base, balance_as_of, exchange_rate_as_of, updated_at
     FROM crypto_synced_balances WHERE crypto_synced_id = :id ORDER BY position`,
  );
  return (id) => {
    const found = account.get({ id });
    return found === undefined ? null : { ...found, balances: balances.all({ id }) };
  };
}
