// The calling user. There is one: every bearer token belongs to the same sample household.
import type { DatabaseSync } from "node:sqlite";

export interface User {
  readonly name: string;
  readonly email: string;
  readonly id: number;
  readonly account_id: number;
  readonly budget_name: string;
  readonly primary_currency: string;
  readonly api_key_label: string | null;
}

/** Read once at the start; it does not change. */
export function readUser(database: DatabaseSync): User {
  const columns = "name, email, id, account_id, budget_name, primary_currency, api_key_label";
  const row = database.prepare(`SELECT ${columns} FROM users`).get();
  if (row === undefined) throw new Error("the database holds no user");
  return row as unknown as User;
}
