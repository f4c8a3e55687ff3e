// Opens the database, in memory or in a file. An empty file is filled in one transaction, so that it is complete or still
// empty. A file of this program is reused; any other file is refused and not written to. The connection is then read only.
import { readFileSync } from "node:fs";
import { DatabaseSync } from "node:sqlite";

/** "HgFB" in ASCII, as PRAGMA application_id. */
const applicationId = 0x48674642;

/** Raised with every change of `sample.sql`: an older file is refused instead of misread. */
const schemaVersion = 1;

/** The file cannot be used. The message names the file and the reason, for the operator. */
export class DatabaseError extends Error {
  override readonly name = "DatabaseError";
}

/** `path` null is a database in memory. Throws DatabaseError. */
export function openDatabase(path: string | null): DatabaseSync {
  let database: DatabaseSync | undefined;
  try {
    database = new DatabaseSync(path ?? ":memory:", { timeout: 5000, enableForeignKeyConstraints: true });
    prepareContents(database);
    database.exec("PRAGMA query_only = 1");
    return database;
  } catch (error) {
    database?.close();
    const reason = error instanceof Error ? error.message : String(error);
    throw new DatabaseError(`cannot use the database ${path ?? "in memory"}: ${reason}`, { cause: error });
  }
}

function prepareContents(database: DatabaseSync): void {
  if (identify(database) === "ours") return;
  // Look again with the lock: two servers that start on one new file must not both fill it.
  database.exec("BEGIN IMMEDIATE");
  try {
    if (identify(database) === "empty") fillWithSample(database);
    database.exec("COMMIT");
  } catch (error) {
    if (database.isTransaction) database.exec("ROLLBACK");
    throw error;
  }
}

/** Writes the tables and the sample data, and at last the mark of this program. The caller holds the transaction. */
function fillWithSample(database: DatabaseSync): void {
  database.exec(readFileSync(new URL("./sample.sql", import.meta.url), "utf8"));
  database.exec(`PRAGMA application_id = ${applicationId}; PRAGMA user_version = ${schemaVersion}`);
}

function identify(database: DatabaseSync): "ours" | "empty" {
  const id = pragma(database, "application_id");
  const version = pragma(database, "user_version");
  if (id === applicationId && version === schemaVersion) return "ours";
  if (id === applicationId) {
    throw new Error(`it holds version ${version} of the sample data and version ${schemaVersion} is needed; remove it`);
  }
  const schemaObject = database.prepare("SELECT name FROM sqlite_schema LIMIT 1").get();
  if (id !== 0 || version !== 0 || schemaObject !== undefined)
    throw new Error("it is another application's SQLite database");
  return "empty";
}

function pragma(database: DatabaseSync, name: "application_id" | "user_version"): number {
  return Number(database.prepare(`PRAGMA ${name}`).get()?.[name]);
}
