// Shows the effective configuration, including defaults, in the form in which it could be written into a file. Secrets are
// masked; names of tokens are none.
import { stringify } from "yaml";
import { defaultOf, type Leaf, type Node } from "./definition.ts";
import { type Raw, rawAt, type Scalar } from "./raw.ts";
import { schema } from "./schema.ts";

/** The names in `auth.tokensFile`. */
export type TokenNames = ReadonlySet<string>;

const noNames: TokenNames = new Set();

/** One line for each top-level key. */
export function effectiveLines(raw: Raw | undefined, tokenNames = noNames): string[] {
  return Object.entries(schema.keys).map(([key, node]) =>
    flow({ [key]: effective(node, rawAt(raw, [key]), tokenNames) }, true).replace(/^\{ (.*) \}$/s, "$1"),
  );
}

export function effective(node: Node, raw?: Raw, tokenNames = noNames): unknown {
  switch (node.kind) {
    case "leaf":
      if (raw?.kind !== "scalar") return node.default;
      return isMasked(node, raw.value, tokenNames) ? "***" : raw.value;
    case "list":
      return (raw?.kind === "list" ? raw : defaultOf(node)).items.map((item) => effective(node.item, item, tokenNames));
    case "section":
      return Object.fromEntries(
        Object.entries(node.keys)
          .map(([key, child]) => [key, child, rawAt(raw, [key])] as const)
          .filter(([, child, written]) => !child.isShownIfWritten || isGiven(written))
          .map(([key, child, written]) => [key, effective(child, written, tokenNames)]),
      );
  }
}

function isMasked({ isSecret, mayBeTokenName }: Leaf<unknown>, value: Scalar, tokenNames: TokenNames): boolean {
  return isSecret === true && value !== null && !(mayBeTokenName && tokenNames.has(String(value)));
}

/** Null is the same as nothing. */
function isGiven(raw: Raw | undefined): boolean {
  return raw !== undefined && !(raw.kind === "scalar" && raw.value === null);
}

/** YAML in one line. */
export function flow(value: unknown, flowCollectionPadding = false): string {
  return stringify(value, { collectionStyle: "flow", flowCollectionPadding, lineWidth: 0 }).trim();
}
