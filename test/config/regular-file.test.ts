// What is no regular file, or is far too large, is refused at once, in both ways of reading, and in the same words.
import { execFileSync } from "node:child_process";
import { truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { explainReadFailure, readRegularFile, readRegularFileSync } from "../../src/config/files.ts";
import { scratchFolder } from "../support/scratch.ts";

const folder = scratchFolder(afterAll);
writeFileSync(join(folder, "text"), "grün");
execFileSync("mkfifo", [join(folder, "pipe")]);
writeFileSync(join(folder, "large"), "");
truncateSync(join(folder, "large"), 64 * 1024 * 1024 + 1);

test.each([
  ["a pipe", join(folder, "pipe"), "it is no regular file"],
  ["a device", "/dev/zero", "it is no regular file"],
  ["a folder", folder, "it is a folder"],
  ["a file that is far too large", join(folder, "large"), "it is larger than 64 MiB"],
  ["nothing", join(folder, "nowhere"), "no such file"],
])("%s is refused", async (_, path, why) => {
  const failure = await readRegularFile(path).then(
    () => "read",
    (cause: unknown) => explainReadFailure(cause),
  );
  expect(failure).toBe(why);
  const readSync = (): string => {
    try {
      return readRegularFileSync(path).toString();
    } catch (cause) {
      return explainReadFailure(cause);
    }
  };
  expect(readSync()).toBe(why);
});

test("a file of 64 MiB is not too large", () => {
  const path = join(folder, "largest");
  writeFileSync(path, "");
  truncateSync(path, 64 * 1024 * 1024);
  expect(readRegularFileSync(path).length).toBe(64 * 1024 * 1024);
});

test("a file is read whole, as UTF-8", async () => {
  const path = join(folder, "text");
  expect(await readRegularFile(path)).toBe("grün");
  expect(readRegularFileSync(path).toString()).toBe("grün");
});
