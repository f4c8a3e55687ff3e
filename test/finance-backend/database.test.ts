import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { afterAll, describe, expect, test } from "vitest";
import { DatabaseError, openDatabase } from "../../src/finance-backend/database.ts";
import { startFinanceBackend } from "../../src/finance-backend/server.ts";
import { scratchFolder } from "../support/scratch.ts";
import { allTransactions } from "./oracle.ts";
import { authorization } from "./support.ts";

const folder = scratchFolder(afterAll);

const count = (database: DatabaseSync): unknown =>
  Object.values(database.prepare("SELECT count(*) FROM transactions").get() ?? {})[0];

function refusal(path: string): unknown {
  try {
    openDatabase(path).close();
    return "accepted";
  } catch (error) {
    expect(error).toBeInstanceOf(DatabaseError);
    return error instanceof Error ? error.message : error;
  }
}

test("a file is filled once and reused as it is: not a byte changes, and the answers are those of the memory", async () => {
  const path = join(folder, "reused.sqlite");
  const bodies: string[] = [];
  const files: Buffer[] = [];
  for (const database of [path, path, null]) {
    const backend = await startFinanceBackend({ host: "127.0.0.1", port: 0, database });
    const response = await fetch(`${backend.url}/v2/transactions?limit=2000`, { headers: authorization });
    bodies.push(await response.text());
    await backend.close();
    files.push(readFileSync(path));
  }
  expect(bodies[1]).toBe(bodies[0]);
  expect(bodies[2]).toBe(bodies[0]);
  expect(files[1]?.equals(files[0] ?? Buffer.of())).toBe(true);
});

test("two servers may share one file, also when the second finds it before the first has written", () => {
  const path = join(folder, "shared.sqlite");
  writeFileSync(path, "");
  const first = openDatabase(path);
  const second = openDatabase(path);
  expect([count(first), count(second)]).toEqual([allTransactions.length, allTransactions.length]);
  first.close();
  second.close();
});

test("the open database takes no writes", () => {
  const database = openDatabase(null);
  expect(() => database.exec("DELETE FROM transactions")).toThrow("attempt to write a readonly database");
  expect(count(database)).toBe(allTransactions.length);
  database.close();
});

describe("refused, and left as it was:", () => {
  test.each([
    ["tables", "CREATE TABLE orders (id INTEGER PRIMARY KEY)"],
    ["only an application id", "PRAGMA application_id = 7"],
    ["only a version", "PRAGMA user_version = 3"],
  ])("another application's database with %s", (name, sql) => {
    const path = join(folder, `other ${name}.sqlite`);
    const other = new DatabaseSync(path);
    other.exec(sql);
    other.close();
    const before = readFileSync(path);
    expect(refusal(path)).toBe(`cannot use the database ${path}: it is another application's SQLite database`);
    expect(readFileSync(path).equals(before)).toBe(true);
  });

  test("a file of ours with another version of the data", () => {
    const path = join(folder, "older.sqlite");
    openDatabase(path).close();
    const older = new DatabaseSync(path);
    older.exec("PRAGMA user_version = 0");
    older.close();
    expect(refusal(path)).toMatch(/it holds version 0 of the sample data and version \d+ is needed; remove it$/);
  });

  test("a file that is no database", () => {
    const path = join(folder, "notes.txt");
    writeFileSync(path, "Groceries: bread, milk, and a great many other things.\n".repeat(40));
    const before = readFileSync(path);
    expect(refusal(path)).toBe(`cannot use the database ${path}: file is not a database`);
    expect(readFileSync(path).equals(before)).toBe(true);
  });

  test("a folder, and a place in a folder that does not exist", () => {
    expect(refusal(folder)).toBe(`cannot use the database ${folder}: unable to open database file`);
    const nowhere = join(folder, "missing", "data.sqlite");
    expect(refusal(nowhere)).toBe(`cannot use the database ${nowhere}: unable to open database file`);
  });
});
