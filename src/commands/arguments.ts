// Parses the command line into a command and its options. An unknown word is an error that suggests the nearest known
// one. Values of settings are checked later, with the rest of the configuration.
import { parseArgs } from "node:util";
import { type AdminRole, adminRoles } from "../admin/admin-tokens.ts";
import { parseScopes } from "../auth/tokens-file.ts";
import { parseDuration } from "../config/leaves.ts";
import type { Override } from "../config/overrides.ts";
import { nearest } from "../config/validate.ts";
import { splitPath } from "../config/written.ts";
import { type CommandName, commandNames, type Option, optionsOf } from "./options.ts";

/** For `start` and `check`. */
export interface ConfigArguments {
  /** Absent: HEADGATE_CONFIG, or the packaged file. */
  readonly file: string | undefined;
  readonly overrides: readonly Override[];
}

/** For `check --diff`. */
export interface DiffArguments {
  readonly files: readonly [from: string, to: string];
  readonly overrides: readonly Override[];
}

export interface DemoArguments {
  readonly port: number;
  readonly adminPort: number;
}

export interface FinanceBackendArguments {
  readonly host: string;
  readonly port: number;
  /** The SQLite file; null keeps everything in memory. */
  readonly database: string | null;
}

export interface TokenArguments {
  /** Absent: the token has no name. */
  readonly name: string | undefined;
  readonly scopes: readonly string[];
  /** Null: it has no end. */
  readonly expiresInMs: number | null;
  /** What a token of the admin API may do; null: it is one of clients. */
  readonly admin: AdminRole | null;
}

type Invocation =
  | { readonly command: "help"; readonly topic: CommandName | null }
  | { readonly command: "version" }
  | { readonly command: "start" | "check"; readonly args: ConfigArguments }
  | { readonly command: "check-diff"; readonly args: DiffArguments }
  | { readonly command: "demo"; readonly args: DemoArguments }
  | { readonly command: "token"; readonly args: TokenArguments }
  | { readonly command: "finance-backend"; readonly args: FinanceBackendArguments };

export type ParsedArguments =
  | { readonly ok: true; readonly invocation: Invocation }
  /** One line, without a newline. */
  | { readonly ok: false; readonly topic: CommandName | null; readonly message: string };

/** `argv` does not contain the paths of node and of the script. */
export function parseArguments(argv: readonly string[]): ParsedArguments {
  const [word, ...rest] = argv;
  if (word === undefined) return refuse(null, "no command given");
  if (word === "--help" || word === "-h" || word === "help") return parseHelp(rest);
  if (word === "--version") return accept({ command: "version" });
  const command = commandNames.find((name) => name === word);
  if (command !== undefined) return parseCommand(command, rest);
  if (word.startsWith("-")) return refuse(null, `found ${quote(word)}, expected a command before any option`);
  return refuse(null, `unknown command ${quote(word)}${suggestion(nearest(word, commandNames))}`);
}

function parseHelp([word]: readonly string[]): ParsedArguments {
  if (word === undefined) return accept({ command: "help", topic: null });
  const topic = commandNames.find((name) => name === word);
  if (topic !== undefined) return accept({ command: "help", topic });
  return refuse(null, `unknown command ${quote(word)}${suggestion(nearest(word, commandNames))}`);
}

function parseCommand(command: CommandName, argv: readonly string[]): ParsedArguments {
  const given = readOptions(command, argv);
  if (typeof given === "string") return refuse(command, given);
  if (given.some(({ name }) => name === "help")) return accept({ command: "help", topic: command });
  const last = (name: string): string | undefined => given.findLast((option) => option.name === name)?.value;
  const numbers = new Map<string, number>();
  for (const { name, value } of given) {
    if (optionsOf(command)[name]?.isPort !== true) continue;
    if (!/^\d{1,5}$/.test(value) || Number(value) > 65535) {
      return refuse(command, `--${name}: found ${quote(value)}, expected a whole number from 0 to 65535`);
    }
    numbers.set(name, Number(value));
  }
  switch (command) {
    case "start":
    case "check": {
      const overrides = readOverrides(command, given);
      if (typeof overrides === "string") return refuse(command, overrides);
      const diff = given.findLast(({ name }) => name === "diff");
      if (diff?.second === undefined) return accept({ command, args: { file: last("config"), overrides } });
      if (last("config") !== undefined) return refuse(command, "--config: found with --diff, expected one of the two");
      return accept({ command: "check-diff", args: { files: [diff.value, diff.second], overrides } });
    }
    case "demo":
      return accept({
        command,
        args: { port: numbers.get("port") ?? 8080, adminPort: numbers.get("admin-port") ?? 9464 },
      });
    case "token": {
      const [name, end, role] = [last("name"), last("expires"), last("admin")];
      if (name !== undefined && !tokenName.test(name)) {
        return refuse(command, `--name: found ${quote(name)}, expected ${tokenNameMeaning}`);
      }
      const scopes = parseScopes(last("scopes"));
      if (scopes === null) return refuse(command, "--scopes: expected scopes joined by commas, such as read,export");
      const expiresInMs = end === undefined ? null : (parseDuration(end) ?? Number.NaN);
      if (expiresInMs !== null && !(expiresInMs >= 1000 && expiresInMs <= maxTokenMs)) {
        return refuse(
          command,
          `--expires: found ${quote(end ?? "")}, expected a duration from 1s to 3650d, such as 90d`,
        );
      }
      const admin = adminRoles.find((each) => each === role) ?? null;
      if (role !== undefined && admin === null) {
        return refuse(command, `--admin: found ${quote(role)}, expected read or write`);
      }
      if (admin !== null && scopes.length + (end === undefined ? 0 : 1) > 0) {
        return refuse(command, "--admin: a token of the admin API has neither scopes nor an end");
      }
      return accept({ command, args: { name, scopes, expiresInMs, admin } });
    }
    case "finance-backend": {
      const host = last("host") ?? "127.0.0.1";
      return accept({
        command,
        args: { host, port: numbers.get("port") ?? 3000, database: last("database") ?? null },
      });
    }
  }
}

const maxTokenMs = 3650 * 86_400_000;

/** Names that an override of a policy can mention: a digest is not a name. */
const tokenName = /^(?![0-9a-fA-F]{64}$)[A-Za-z0-9](?:[A-Za-z0-9 ._@-]{0,62}[A-Za-z0-9._@-])?$/;
const tokenNameMeaning = "at most 64 letters, digits, blanks and . _ @ -, beginning with a letter or digit";

interface Given {
  readonly name: string;
  readonly value: string;
  /** Of an option that takes two values. */
  readonly second?: string;
}

/** The options in the order in which they were given, or a message about the first that is wrong. */
function readOptions(command: CommandName, argv: readonly string[]): Given[] | string {
  const options: Readonly<Record<string, Option>> = optionsOf(command);
  const { tokens } = parseArgs({
    args: [...argv],
    options: Object.fromEntries(
      Object.entries(options).map(([name, { value, short }]) => [
        name,
        { type: value === null ? "boolean" : "string", ...(short === undefined ? {} : { short }) },
      ]),
    ),
    // Strict errors of Node suggest no name and do not name the command.
    strict: false,
    allowPositionals: true,
    tokens: true,
  });
  const given: Given[] = [];
  let second: { readonly value: string } | null = null;
  for (const [i, token] of tokens.entries()) {
    if (token.kind === "option-terminator") continue;
    if (token === second) continue;
    if (token.kind === "positional") return `found ${quote(token.value)}, expected an option`;
    const option = Object.hasOwn(options, token.name) ? options[token.name] : undefined;
    if (option === undefined) {
      const name = nearest(token.name, Object.keys(options));
      return `unknown option ${quote(token.rawName)}${suggestion(name === null ? null : `--${name}`)}`;
    }
    if (option.value === null) {
      if (token.value !== undefined) return `${token.rawName} takes no value`;
    } else if (token.value === undefined || (token.value.startsWith("-") && !token.inlineValue)) {
      return `${token.rawName}: found no value, expected ${option.value}`;
    }
    if (option.second === undefined) {
      given.push({ name: token.name, value: token.value ?? "" });
      continue;
    }
    const next = tokens[i + 1];
    if (next?.kind !== "positional")
      return `${token.rawName}: found one value, expected ${option.value} and ${option.second}`;
    second = next;
    given.push({ name: token.name, value: token.value ?? "", second: next.value });
  }
  return given;
}

/** Overrides of the file and the environment. The later one wins, whether short form or `--set`. */
function readOverrides(command: CommandName, given: readonly Given[]): Override[] | string {
  const overrides: Override[] = [];
  for (const { name, value } of given) {
    const at = { kind: "command line", option: `--${name}` } as const;
    const key = optionsOf(command)[name]?.key;
    if (key !== undefined) overrides.push({ path: splitPath(key), text: value, at });
    if (name !== "set") continue;
    const equals = value.indexOf("=");
    // The value is not shown: without a key it may be anything, a secret too.
    if (equals < 1) return '--set: found no key, expected key.path=value, such as "policies.0.limit=10"';
    overrides.push({ path: splitPath(value.slice(0, equals).trim()), text: value.slice(equals + 1), at });
  }
  return overrides;
}

const accept = (invocation: Invocation): ParsedArguments => ({ ok: true, invocation });
const refuse = (topic: CommandName | null, message: string): ParsedArguments => ({ ok: false, topic, message });
const quote = (word: string): string => JSON.stringify(word.slice(0, 60));
const suggestion = (word: string | null): string => (word === null ? "" : `; did you mean "${word}"?`);
