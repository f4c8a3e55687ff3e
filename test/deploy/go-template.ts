// The part of Helm's template language that the chart uses, and no more: what is not known here throws, so the chart
// cannot come to mean something else than these tests believe. Values are looked up by path; a missing one is an error.
import { createHash } from "node:crypto";
import { stringify } from "yaml";
import { isMapping, type Mapping } from "./shape.ts";

/** `data` holds what `.Values`, `.Release` and `.Chart` stand for. */
export function renderTemplate(template: string, data: Mapping): string {
  // A dash at a mark takes the white space on its side along.
  const text = template.replace(/\s*\{\{-/g, "{{").replace(/-\}\}\s*/g, "}}");
  let out = "";
  /** Whether each block that is open is written; none is inside one that is not. */
  const open: boolean[] = [];
  let end = 0;
  for (const match of text.matchAll(/\{\{\s*(.*?)\s*\}\}/g)) {
    if (!open.includes(false)) out += text.slice(end, match.index);
    end = match.index + match[0].length;
    const action = match[1] ?? "";
    if (action === "end") {
      if (open.pop() === undefined) throw new Error("an end without its beginning");
    } else if (action === "else") {
      const before = open.pop();
      if (before === undefined) throw new Error("an else without its beginning");
      open.push(!before);
    } else if (action.startsWith("if ")) open.push(isMet(action.slice(3), data));
    else if (!open.includes(false)) out += String(evaluate(action, data));
  }
  if (open.length > 0) throw new Error("a block without its end");
  return out + text.slice(end);
}

function isMet(condition: string, data: Mapping): boolean {
  if (condition.startsWith("not ")) return !isMet(condition.slice(4), data);
  const [, path = "", word = ""] = /^eq (\S+) "(\w+)"$/.exec(condition) ?? [];
  if (path !== "") return lookUp(path, data) === word;
  return isTruthy(evaluate(condition, data));
}

/** Empty texts, lists and mappings, zero and false are not. */
function isTruthy(value: unknown): boolean {
  if (Array.isArray(value)) return value.length > 0;
  return isMapping(value) ? Object.keys(value).length > 0 : Boolean(value);
}

function evaluate(pipeline: string, data: Mapping): unknown {
  const [first = "", ...stages] = pipeline.split(" | ");
  return stages.reduce((value: unknown, stage) => apply(stage, value, data), operand(first, data));
}

function operand(text: string, data: Mapping): unknown {
  const [, path] = /^toYaml (\S+)$/.exec(text) ?? [];
  return path === undefined ? lookUp(text, data) : toYaml(lookUp(path, data));
}

function apply(stage: string, value: unknown, data: Mapping): unknown {
  const [name, argument = ""] = stage.split(" ");
  switch (name) {
    case "default":
      return isTruthy(value) ? value : lookUp(argument, data);
    case "trimSuffix": {
      const suffix: string = JSON.parse(argument);
      const text = String(value);
      return text.endsWith(suffix) ? text.slice(0, -suffix.length) : text;
    }
    case "add":
      return wholeNumber(String(value)) + wholeNumber(argument);
    case "nindent":
      return `\n${String(value).replace(/^/gm, " ".repeat(Number(argument)))}`;
    case "sha256sum":
      return createHash("sha256").update(String(value)).digest("hex");
    default:
      throw new Error(`unknown function ${name}`);
  }
}

/** Helm takes everything else for zero. */
function wholeNumber(text: string): number {
  if (!/^\d+$/.test(text)) throw new Error(`not a whole number: ${text}`);
  return Number(text);
}

function lookUp(path: string, data: Mapping): unknown {
  if (!/^(\.[A-Za-z]+)+$/.test(path)) throw new Error(`not understood: ${path}`);
  return path.split(".").reduce((inner: unknown, key) => {
    if (key === "") return inner;
    if (!isMapping(inner) || !Object.hasOwn(inner, key)) throw new Error(`no value for ${path}`);
    return inner[key];
  }, data);
}

/** Helm takes the last line's end off. */
function toYaml(value: unknown): string {
  return stringify(value).replace(/\n$/, "");
}
