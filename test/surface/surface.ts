// The public surface: what the files, scripts, dashboards and programs of users rely on, one line for each part. Prose such as
// descriptions is not in it.
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { type ApiOperation, apiDocument } from "../../config/source/api-document.ts";
import { describeSection, jsonSchema } from "../../config/source/json-schema.ts";
import { exitCodes, signalExitCodes } from "../../src/commands/io.ts";
import { commandNames, commands } from "../../src/commands/options.ts";
import { variableName } from "../../src/config/overrides.ts";
import { type LocalReply, localReplies, refusalReasons } from "../../src/core/local-reply.ts";
import { pluginOptions } from "../../src/fastify/plugin-options.ts";
import { rulesScript } from "../../src/limits/store/rules-script.ts";
import { storeScript } from "../../src/limits/store/script.ts";
import { createAccessLog } from "../../src/telemetry/access-log.ts";
import { Samplers } from "../../src/telemetry/log.ts";
import { encode } from "../limits/snapshot/sample.ts";
import { FakeClock, keptLog } from "../telemetry/lines.ts";
import { exchangeOf, metricsOf, storeOf } from "../telemetry/scrape.ts";

const root = join(import.meta.dirname, "../..");

/** Each line is `<area> <name>: <what it is>`, sorted. The name has no blank. */
export async function surface(): Promise<string[]> {
  const lines = [
    ...configurationLines(),
    ...schemaLines("plugin", "", describeSection(pluginOptions)),
    ...commandLines(),
    ...exitLines(),
    ...(await metricLines()),
    ...logLines(),
    ...refusalLines(),
    ...(await apiLines()),
    ...moduleLines("plugin", "src/fastify/index.ts"),
    ...moduleLines("client", "src/client/index.ts"),
    // Gateways of two versions share a store and read one file, so each change of these needs a sentence for who upgrades.
    `snapshot sample: ${digest(encode())}`,
    `store counters: ${digest(storeScript)}`,
    `store rules: ${digest(rulesScript)}`,
  ];
  return [...new Set(lines)].sort();
}

interface Schema {
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly items?: Schema;
  readonly anyOf?: readonly Schema[];
  readonly additionalProperties?: boolean | Schema;
  readonly required?: readonly string[];
  readonly [keyword: string]: unknown;
}

/** What describes, or stands in lines of its own. */
const unlisted = new Set([
  "$schema",
  "title",
  "description",
  "properties",
  "items",
  "anyOf",
  "additionalProperties",
  "required",
]);

/** A line for the schema, unless it is the whole, and for all below it. */
function schemaLines(area: string, name: string, schema: Schema, isRequired = false): string[] {
  const facts = Object.entries(schema).filter(([keyword]) => !unlisted.has(keyword));
  const own = [
    ...facts.map(([keyword, value]) => `${keyword} ${JSON.stringify(value)}`),
    ...(isRequired ? ["required"] : []),
  ];
  const { properties = {}, items, anyOf = [], additionalProperties, required = [] } = schema;
  return [
    ...(name === "" ? [] : [`${area} ${name}: ${own.join(", ")}`]),
    ...Object.entries(properties).flatMap(([key, each]) => {
      return schemaLines(area, name === "" ? key : `${name}.${key}`, each, required.includes(key));
    }),
    ...(items === undefined ? [] : schemaLines(area, `${name}[]`, items)),
    ...anyOf.flatMap((each, i) => schemaLines(area, `${name}|${i + 1}`, each)),
    ...(typeof additionalProperties === "object" ? schemaLines(area, `${name}.*`, additionalProperties) : []),
  ];
}

function configurationLines(): string[] {
  const lines = schemaLines("config", "", jsonSchema());
  const keys = lines.map((line) => line.split(/[ :]/)[1] ?? "").filter((key) => !/[|*]/.test(key));
  return [
    ...lines,
    ...keys.map((key) => `environment ${variableName(key.replaceAll("[]", ".0").split("."))}: ${key}`),
    "environment HEADGATE_CONFIG: the file",
  ];
}

function commandLines(): string[] {
  return commandNames.flatMap((name) => {
    const { positionals = [], options, answer } = commands[name];
    return [
      `command ${name}: ${positionals.map((each) => `${each.name}${each.isOptional ? "?" : ""}`).join(" ")}`,
      ...(answer === undefined ? [] : [`command ${name}>answer: ${answer}`]),
      ...Object.entries(options).map(([option, { value, short, second, isRequired, form }]) => {
        const facts = [
          value ?? "no value",
          second,
          short && `-${short}`,
          isRequired && "required",
          form && formOf(form),
        ];
        return `command ${name}--${option}: ${facts.filter(Boolean).join(", ")}`;
      }),
    ];
  });
}

const formOf = (form: object): string =>
  JSON.stringify(form, (_key, value) => (value instanceof RegExp ? value.source : value)).replace(
    /,"expected":.*/,
    "}",
  );

function exitLines(): string[] {
  return Object.entries({ ...exitCodes, ...signalExitCodes }).map(([name, code]) => `exit ${name}: ${code}`);
}

async function metricLines(): Promise<string[]> {
  const metrics = metricsOf({ store: storeOf() });
  // Series of requests are there when the first one is counted.
  for (const problem of [null, ...refusalReasons]) metrics.observe(exchangeOf({ problem }));
  const { body } = await metrics.text(false);
  return [...body.matchAll(/^# TYPE (headgate_\S+) (\S+)$/gm)].map(([, name = "", type]) => {
    const samples = body.matchAll(new RegExp(`^${name}(?:_bucket|_sum|_count)?(?:\\{(.*)\\})? `, "gm"));
    const labels = new Set(
      [...samples].flatMap(([, text = ""]) => [...text.matchAll(/(\w+)="/g)].map(([, label]) => label)),
    );
    return `metric ${name}: ${type} {${[...labels].sort().join(",")}}`;
  });
}

/** Of a request's line. */
function logLines(): string[] {
  const { log, written } = keptLog();
  const access = createAccessLog(new Samplers(log, new FakeClock(), 5));
  const broken = { detail: { rule: "a folded line", line: 3, field: "x" } };
  const bare = { traceId: null, route: null, answeredMs: null, bytesReceived: null, bytesSent: null };
  for (const changes of [{ subject: "alice", requestId: "r" }, bare, broken, { detail: "x" }, { rule: "r" }]) {
    access.record(exchangeOf(changes), "/v2/a");
  }
  const types = new Map<string, Set<string>>();
  for (const line of written) {
    for (const [field, value] of Object.entries(JSON.parse(line) as object)) {
      const known = types.get(field) ?? new Set();
      types.set(field, known.add(value === null ? "null" : typeof value));
    }
  }
  return [...types].map(([field, kinds]) => `log ${field}: ${[...kinds].sort().join(" or ")}`);
}

/** What a client of the API is answered. */
function refusalLines(): string[] {
  const replies: readonly LocalReply[] = Object.values(localReplies);
  return refusalReasons.map((reason) => {
    const [first] = replies.filter((reply) => reply.reason === reason);
    const statuses = new Set(replies.filter((reply) => reply.reason === reason).map(({ status }) => status));
    return `refusal ${reason}: ${[...statuses].join(" or ")} ${first?.body ?? ""}`;
  });
}

async function apiLines(): Promise<string[]> {
  const { paths } = await apiDocument();
  return Object.entries(paths).flatMap(([path, methods]) => {
    return Object.entries(methods).flatMap(([method, operation]) =>
      operationLines(`${method.toUpperCase()}${path}`, operation),
    );
  });
}

function operationLines(call: string, { parameters = [], requestBody, responses }: ApiOperation): string[] {
  const bodies = Object.entries(requestBody?.content ?? {});
  return [
    `api ${call}: ${Object.keys(responses).join(" ")}`,
    ...parameters.flatMap(({ name, in: where, schema }) =>
      schemaLines("api", `${call}?${where}.${name}`, schema as Schema),
    ),
    ...bodies.flatMap(([type, { schema }]) => schemaLines("api", `${call}<${type}`, schema as Schema)),
    ...Object.entries(responses).flatMap(([status, { content = {} }]) => {
      return Object.entries(content).flatMap(([type, { schema }]) => {
        // All errors have one form.
        const answer = status.startsWith("2") ? `${call}>${status}` : "error";
        return schemaLines("api", `${answer}>${type}`, schema as Schema);
      });
    }),
  ];
}

/** What a module exports, with the fields of its interfaces and the parameters of its functions. */
function moduleLines(area: string, path: string): string[] {
  const text = readFileSync(join(root, path), "utf8");
  const lists = [...text.matchAll(/^export (type )?\{ (.+?) \} from "(.+?)";$/gm)];
  const own = [...text.matchAll(/^export (?:const (\w+)|default) ?/gm)].map(
    ([, name]) => `${area} ${name ?? "default"}: exported`,
  );
  return [
    ...own,
    ...lists.flatMap(([, , names = "", file = ""]) => {
      const source = readFileSync(join(root, dirname(path), file), "utf8");
      return names.split(", ").flatMap((each) => declarationLines(area, each.replace("type ", ""), source));
    }),
  ];
}

function declarationLines(area: string, name: string, source: string): string[] {
  const pattern = `^export (?:async )?(?:(interface|class) ${name}\\b[^]*?^}|(type|const|function\\*?) ${name}\\b([^]*?)(?: {\n|;$))`;
  const [declared = "", shape, word, signature = ""] = source.match(new RegExp(pattern, "m")) ?? [];
  const kind = shape ?? word;
  if (kind === undefined) throw new Error(`${name} is exported, and its declaration was not found`);
  const fields = [...declared.matchAll(/^ {2}(?:readonly )?(\w+\??)(: .+?|\(.*\): .+?)(?: = .*)?;$/gm)];
  return [
    `${area} ${name}: ${shape ?? signature.replaceAll(/\s+/g, " ").trim()}`,
    ...fields.map(([, field, type = ""]) => `${area} ${name}.${field}: ${type.replace(/^: /, "").trim()}`),
  ];
}

/** Returns each name whose line was added, removed or changed, and that the changelog names neither itself nor above it. */
export function unnamed(released: readonly string[], current: readonly string[], changelog: string): string[] {
  const [before, now] = [new Set(released), new Set(current)];
  const changed = [...before].filter((line) => !now.has(line)).concat([...now].filter((line) => !before.has(line)));
  const named = [...changelog.matchAll(/`(\w+ [^`\s]+)`/g)].map(([, name = ""]) => name);
  const names = new Set(changed.map((line) => line.slice(0, line.indexOf(": "))));
  return [...names].filter((name) => !named.some((each) => name === each || isBelow(name, each))).sort();
}

function isBelow(name: string, above: string): boolean {
  return name.startsWith(above) && /^[.[>?<|-]/.test(name.slice(above.length));
}

function digest(content: string | Buffer): string {
  return createHash("sha256").update(content).digest("hex").slice(0, 16);
}
