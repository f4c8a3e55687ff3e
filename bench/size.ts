// Says how large the source of the gateway is, for each folder: tokens without comments, lines, files, exports, types. The
// plugin, the reference backend and the client are left out. Usage: npm run bench:size [-- directory]
import { readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { SyntaxKind } from "typescript/unstable/ast";
import { createScanner } from "typescript/unstable/ast/scanner";

const src = join(resolve(process.argv[2] ?? join(import.meta.dirname, "..")), "src");
const leftOut = ["fastify", "finance-backend", "client"];

interface Size {
  tokens: number;
  exports: number;
  types: number;
  /** The lines of each file. */
  readonly files: number[];
}

const all: Size = { tokens: 0, exports: 0, types: 0, files: [] };
const folders = new Map<string, Size>([["all", all]]);
for (const path of readdirSync(src, { recursive: true, encoding: "utf8" }).sort()) {
  const folder = path.includes("/") ? path.slice(0, path.indexOf("/")) : "(top)";
  if (!path.endsWith(".ts") || leftOut.includes(folder)) continue;
  const size = folders.get(folder) ?? { tokens: 0, exports: 0, types: 0, files: [] };
  folders.set(folder, size);
  const text = readFileSync(join(src, path), "utf8");
  for (const to of [all, size]) {
    to.tokens += tokensOf(text);
    to.exports += text.match(/^export /gm)?.length ?? 0;
    to.types += text.match(/^(?:export )?(?:interface|type) /gm)?.length ?? 0;
    to.files.push(text.split("\n").length - 1);
  }
}

function tokensOf(text: string): number {
  const scanner = createScanner(true);
  scanner.setText(text);
  /** The kinds of open braces: those of templates and all others. */
  const braces: SyntaxKind[] = [];
  let tokens = 0;
  let last = SyntaxKind.Unknown;
  for (let token = scanner.scan(); token !== SyntaxKind.EndOfFile; token = scanner.scan()) {
    if (isSlash(token) && !endsValue(last)) token = scanner.reScanSlashToken();
    if (token === SyntaxKind.CloseBraceToken && braces.pop() === SyntaxKind.TemplateHead) {
      token = scanner.reScanTemplateToken(false);
      if (token === SyntaxKind.TemplateMiddle) braces.push(SyntaxKind.TemplateHead);
    }
    if (token === SyntaxKind.OpenBraceToken || token === SyntaxKind.TemplateHead) braces.push(token);
    tokens += 1;
    last = token;
  }
  return tokens;
}

function isSlash(token: SyntaxKind): boolean {
  return token === SyntaxKind.SlashToken || token === SyntaxKind.SlashEqualsToken;
}

/** A slash behind it divides, and does not begin a regular expression. */
function endsValue(token: SyntaxKind): boolean {
  const ends = [SyntaxKind.Identifier, SyntaxKind.NumericLiteral, SyntaxKind.CloseParenToken];
  return [...ends, SyntaxKind.CloseBracketToken, SyntaxKind.PrivateIdentifier].includes(token);
}

const median = (values: readonly number[]): number => values.toSorted((a, b) => a - b)[values.length >> 1] ?? 0;
const columns = ["folder", "tokens", "lines", "files", "median", "longest", "exports", "types"];
const rows = [...folders].map(([folder, { tokens, files, exports, types }]) => {
  const lines = files.reduce((sum, count) => sum + count, 0);
  return [folder, tokens, lines, files.length, median(files), Math.max(...files), exports, types];
});
for (const [first, ...rest] of [columns, ...rows]) {
  process.stdout.write(`${String(first).padEnd(12)}${rest.map((value) => String(value).padStart(9)).join("")}\n`);
}
