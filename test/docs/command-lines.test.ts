// Each command line that a page tells a reader to type is one that the commands take.
import { expect, test } from "vitest";
import { parseArguments } from "../../src/commands/arguments.ts";
import { codeBlocks, markdownFiles, read } from "./markdown.ts";

const programs = ["headgate ", "npm run headgate -- ", "npm start -- ", "node dist/main.js "];

/** The words of a line of a shell: without its comment, its redirection, what follows a pipe and its quotes. */
function wordsOf(line: string): string[] {
  const command = line.replace(/\s(#|[|>&]+\s?).*$/, "").trim();
  return [...command.matchAll(/"([^"]*)"|'([^']*)'|(\S+)/g)].map(([, a, b, c]) => a ?? b ?? c ?? "");
}

const written = markdownFiles()
  .filter((path) => path !== "CHANGELOG.md")
  .flatMap((path) => {
    const blocks = codeBlocks(path, "sh").flatMap((block) => block.replaceAll("\\\n", " ").split("\n"));
    const inText = [
      ...read(path)
        .replace(/^ *```.*?^ *```/gms, "")
        .matchAll(/`([^`]+)`/g),
    ].map(([, text = ""]) => text.replace(/\s+/g, " "));
    return [...blocks, ...inText].map((line) => ({
      path,
      line: line.replace(/^(docker|kubectl) exec \S+( --)? /, ""),
    }));
  })
  .flatMap(({ path, line }) => {
    const program = programs.find((name) => line.startsWith(name));
    if (program === undefined || line.includes("…")) return [];
    const words = wordsOf(line.slice(program.length));
    // A name alone speaks of the command.
    if (words.length < 2 || words[0]?.startsWith("<")) return [];
    return [{ path, line, argv: program === "npm start -- " ? ["start", ...words] : words }];
  });

test("there are commands", () => {
  expect(written.length).toBeGreaterThan(30);
});

test.each(written)("$path: $line", ({ argv }) => {
  const parsed = parseArguments(argv);
  expect(parsed.ok ? null : parsed.message).toBeNull();
});
