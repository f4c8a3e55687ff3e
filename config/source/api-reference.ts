// Generates the reference of all calls in docs/api.md from the OpenAPI document: for each call what it takes, what it answers,
// and with which statuses.
import { type ApiDocument, type ApiOperation, type ApiSchema, apiDocument } from "./api-document.ts";

export async function apiReference(): Promise<string> {
  const document = await apiDocument();
  const sections = document.tags.flatMap(({ name, description }) => [
    `### ${name[0]?.toUpperCase()}${name.slice(1)}`,
    "",
    description,
    "",
    ...operationsOf(document, name),
  ]);
  return sections.join("\n");
}

function operationsOf({ paths }: ApiDocument, tag: string): string[] {
  return Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods)
      .filter(([, { tags }]) => tags.includes(tag))
      .flatMap(([method, operation]) => operationLines(`${method.toUpperCase()} ${path}`, operation)),
  );
}

function operationLines(call: string, { summary, parameters = [], requestBody, responses }: ApiOperation): string[] {
  const body = requestBody?.content?.["application/json"]?.schema;
  const good = Object.keys(responses).find((status) => status.startsWith("2")) ?? "";
  const content = responses[good]?.content ?? {};
  const answer = content["application/json"]?.schema ?? content["text/event-stream"]?.schema;
  return [
    `#### ${call}`,
    "",
    `${summary}.${body?.description === undefined || isEmpty(body) ? "" : ` ${body.description}`}`,
    "",
    ...table(
      ["parameter", "where", "meaning"],
      parameters.map(({ name, in: place, description = "", schema }) => [
        `\`${name}\``,
        place,
        [...(schema?.enum === undefined ? [] : [`${typeOf(schema)}.`]), description].join(" "),
      ]),
    ),
    ...(body === undefined || isEmpty(body) ? [] : table(["body", "type", "meaning"], rows(body, ""))),
    ...(answer === undefined ? [] : table(["answer", "type", "meaning"], rows(answer, ""))),
    `Statuses: ${Object.keys(responses).join(", ")}.`,
    "",
  ];
}

function isEmpty({ properties = {} }: ApiSchema): boolean {
  return Object.keys(properties).length === 0;
}

function table(head: readonly string[], lines: readonly (readonly string[])[]): string[] {
  if (lines.length === 0) return [];
  const cells = (texts: readonly string[]): string =>
    `| ${texts.map((text) => text.replaceAll("|", "\\|")).join(" | ")} |`;
  return [cells(head), `|${"---|".repeat(head.length)}`, ...lines.map(cells), ""];
}

/** A row for each key, with those of objects and lists below. Of several kinds of answers, one after the other. */
function rows(schema: ApiSchema, path: string): string[][] {
  const kinds = withoutNull(schema);
  if (kinds.length > 1) return kinds.flatMap((kind) => rows(kind, path));
  const [{ properties = {}, required = [], items } = {}] = kinds;
  if (items !== undefined) return rows(items, `${path}[]`);
  return Object.entries(properties).flatMap(([key, each]) => {
    const at = path === "" ? key : `${path}.${key}`;
    const optional = required.includes(key) ? "" : "optional, ";
    return [[`\`${at}\``, optional + typeOf(each), descriptionOf(each)], ...rows(each, at)];
  });
}

function withoutNull(schema: ApiSchema): readonly ApiSchema[] {
  return schema.anyOf?.filter(({ type }) => type !== "null") ?? [schema];
}

function typeOf(schema: ApiSchema): string {
  const [kind = schema, ...others] = withoutNull(schema);
  const orNull = schema.anyOf !== undefined && others.length === 0 ? " or null" : "";
  if (kind.enum !== undefined) return `${kind.enum.map((word) => `\`${word}\``).join(", ")}${orNull}`;
  if (kind.format === "date-time") return `instant${orNull}`;
  if (kind.items !== undefined)
    return `list${kind.items.properties === undefined ? ` of ${typeOf(kind.items)}` : ""}${orNull}`;
  const names = new Map([
    ["string", "text"],
    ["boolean", "true or false"],
  ]);
  return `${names.get(kind.type ?? "") ?? kind.type ?? "any value"}${orNull}`;
}

function descriptionOf(schema: ApiSchema): string {
  return schema.description ?? withoutNull(schema)[0]?.description ?? "";
}
