// Completions, asked as a shell asks for them. bash is on every machine that runs the tests; zsh and fish read their scripts where
// they are installed.
import { execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { run } from "../../src/commands/completions.ts";
import { commandNames, commands } from "../../src/commands/options.ts";
import { useCleanup } from "../support/cleanup.ts";
import { scratchFolder } from "../support/scratch.ts";
import { testIo } from "./test-io.ts";

const cleanup = useCleanup();

function isInstalled(shell: string): boolean {
  try {
    execFileSync(shell, ["-c", "true"]);
    return true;
  } catch {
    return false;
  }
}

async function scriptFor(shell: "bash" | "zsh" | "fish"): Promise<string> {
  const io = testIo();
  expect(await run({ shell }, io)).toBe(0);
  return io.outText();
}

/** What a bash offers for the last of these words. */
async function offered(cwd: string, ...words: readonly string[]): Promise<string[]> {
  const script = await scriptFor("bash");
  const file = join(cwd, ".completions");
  writeFileSync(file, script);
  const ask = `
    set -u
    source "$1"; shift
    complete -p headgate >/dev/null || exit 9
    COMP_WORDS=(headgate "$@"); COMP_CWORD=$#
    before=headgate; [ $# -gt 1 ] && before="\${COMP_WORDS[$#-1]}"
    _headgate headgate "\${!#}" "$before"
    printf '%s\\n' "\${COMPREPLY[@]+"\${COMPREPLY[@]}"}"`;
  const out = execFileSync("bash", ["--norc", "-c", ask, "bash", file, ...words], { cwd, encoding: "utf8" });
  return out.split("\n").filter((line) => line !== "");
}

describe("bash", () => {
  test("offers the commands, and those that begin so", async () => {
    const folder = scratchFolder(cleanup);
    expect(await offered(folder, "")).toEqual([...commandNames, "--help", "--version"]);
    expect(await offered(folder, "re")).toEqual(["reload"]);
  });

  test.each(commandNames)("offers each option of %s", async (name) => {
    const options = Object.keys(commands[name].options).map((option) => `--${option}`);
    expect(await offered(scratchFolder(cleanup), name, "--")).toEqual(options);
  });

  test("offers the words of an option and of an argument, and files where one is expected", async () => {
    const folder = scratchFolder(cleanup);
    writeFileSync(join(folder, "gateway.yaml"), "");
    expect(await offered(folder, "clients", "--sort", "")).toEqual(["used", "share", "refused", "recent"]);
    expect(await offered(folder, "reload", "--unconfirmed", "k")).toEqual(["keep"]);
    expect(await offered(folder, "completions", "z")).toEqual(["zsh"]);
    expect(await offered(folder, "rules", "r")).toEqual(["remove"]);
    expect(await offered(folder, "start", "--config", "gate")).toEqual(["gateway.yaml"]);
    expect(await offered(folder, "block", "--for", "")).toEqual([]);
    expect(await offered(folder, "nonsense", "")).toEqual([]);
  });
});

describe.each(["zsh", "fish"] as const)("%s", (shell) => {
  test("has each command and option, and nothing that quotes break", async () => {
    const script = await scriptFor(shell);
    for (const name of commandNames) {
      expect(script).toContain(name);
      for (const option of Object.keys(commands[name].options)) expect(script).toContain(option);
    }
    // Without escaped ones, quotes come in pairs on each line.
    for (const line of script.split("\n").filter((each) => !each.startsWith("#"))) {
      expect(line.replaceAll(shell === "zsh" ? "'\\''" : "\\'", "").split("'").length % 2).toBe(1);
    }
  });
});

test("zsh and fish, if they are installed, find no mistake in their scripts", async () => {
  for (const shell of (["zsh", "fish"] as const).filter(isInstalled)) {
    const file = join(scratchFolder(cleanup), "completions");
    writeFileSync(file, await scriptFor(shell));
    execFileSync(shell, ["-n", file], { stdio: "pipe" });
  }
});
