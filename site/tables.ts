// Tables on narrow screens: one with long cells is shown row by row, where each cell needs the name of its column.
import type { MarkdownIt, Token } from "./links.ts";

/** Longer cells leave no room for a second column on a telephone. */
const longCell = 30;

export function namedColumns(md: MarkdownIt): void {
  md.core.ruler.push("named-columns", ({ tokens }) => {
    let body: Token | undefined;
    let names: string[] = [];
    let column = 0;
    tokens.forEach((token, i) => {
      const text = tokens[i + 1]?.content ?? "";
      if (token.type === "table_open") names = [];
      // VitePress writes the tag of the table by itself, without what is set here.
      if (token.type === "tbody_open") body = token;
      if (token.type === "tr_open") column = 0;
      if (token.type === "th_open") names.push(text);
      if (token.type !== "td_open") return;
      token.attrSet("data-column", (names[column] ?? "").replaceAll("`", ""));
      if (text.length > longCell) body?.attrSet("class", "long-cells");
      column += 1;
    });
  });
}
