// Parses the command line into a command and its arguments. What is given is read by the table of commands; here it gets the
// form that each command takes.
import { type AdminRole, adminRoles } from "../admin/admin-tokens.ts";
import { parseScopes } from "../auth/tokens-file.ts";
import type { Override } from "../config/overrides.ts";
import { nearest } from "../config/validate.ts";
import { splitPath } from "../config/written.ts";
import { durationOf, type Given, lastOf, numberOf, quote, readGiven, suggestion } from "./given.ts";
import { type AdminCommandName, type CommandName, commandNames, optionsOf, shells } from "./options.ts";

/** For `start` and `check`. */
export interface ConfigArguments {
  /** Absent: HEADGATE_CONFIG, or the packaged file. */
  readonly file: string | undefined;
  readonly overrides: readonly Override[];
  /** Of `check` alone: whether the servers of the store are asked. */
  readonly isOnline?: boolean;
}

/** For `check --diff`. */
export interface DiffArguments {
  readonly files: readonly [from: string, to: string];
  readonly overrides: readonly Override[];
}

export interface DemoArguments {
  readonly port: number;
  readonly adminPort: number;
  /** No simulated clients. */
  readonly isQuiet: boolean;
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

export interface AdminArguments {
  readonly name: AdminCommandName;
  readonly given: Given;
}

export type Shell = (typeof shells)[number];

type Invocation =
  | { readonly command: "help"; readonly topic: CommandName | null }
  | { readonly command: "version" }
  | { readonly command: "start" | "check"; readonly args: ConfigArguments }
  | { readonly command: "check-diff"; readonly args: DiffArguments }
  | { readonly command: "demo"; readonly args: DemoArguments }
  | { readonly command: "token"; readonly args: TokenArguments }
  | { readonly command: "finance-backend"; readonly args: FinanceBackendArguments }
  | { readonly command: "completions"; readonly args: { readonly shell: Shell } }
  /** It asks a running gateway. What was given is read further with the command, so that a start need not load that. */
  | { readonly command: "admin"; readonly args: AdminArguments };

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
  // The nearest one would do the opposite.
  if (word === "unblock") return refuse(null, 'unknown command "unblock"; "headgate rules remove <id>" ends a block');
  return refuse(null, `unknown command ${quote(word)}${suggestion(nearest(word, commandNames))}`);
}

function parseHelp([word]: readonly string[]): ParsedArguments {
  if (word === undefined) return accept({ command: "help", topic: null });
  const topic = commandNames.find((name) => name === word);
  if (topic !== undefined) return accept({ command: "help", topic });
  return refuse(null, `unknown command ${quote(word)}${suggestion(nearest(word, commandNames))}`);
}

function parseCommand(command: CommandName, argv: readonly string[]): ParsedArguments {
  const given = readGiven(command, argv);
  if (typeof given === "string") return refuse(command, given);
  if (given.options.some(({ name }) => name === "help")) return accept({ command: "help", topic: command });
  switch (command) {
    case "start":
    case "check":
      return parseConfig(command, given);
    case "demo": {
      const [port, adminPort] = [numberOf(given, "port"), numberOf(given, "admin-port")];
      const isQuiet = given.options.some(({ name }) => name === "quiet");
      return accept({ command, args: { port: port ?? 8080, adminPort: adminPort ?? 9464, isQuiet } });
    }
    case "token":
      return parseToken(given);
    case "finance-backend": {
      const [host, port, database] = [lastOf(given, "host"), numberOf(given, "port"), lastOf(given, "database")];
      return accept({ command, args: { host: host ?? "127.0.0.1", port: port ?? 3000, database: database ?? null } });
    }
    case "completions":
      return accept({ command, args: { shell: shells.find((each) => each === given.words[0]) ?? "bash" } });
    default:
      return accept({ command: "admin", args: { name: command, given } });
  }
}

function parseConfig(command: "start" | "check", given: Given): ParsedArguments {
  const overrides = readOverrides(command, given);
  if (typeof overrides === "string") return refuse(command, overrides);
  const file = lastOf(given, "config");
  const diff = given.options.findLast(({ name }) => name === "diff");
  const isOnline = given.options.some(({ name }) => name === "online");
  if (diff?.second === undefined) return accept({ command, args: { file, overrides, ...(isOnline && { isOnline }) } });
  if (isOnline) return refuse(command, "--online: found with --diff, expected one of the two");
  if (file !== undefined) return refuse(command, "--config: found with --diff, expected one of the two");
  return accept({ command: "check-diff", args: { files: [diff.value, diff.second], overrides } });
}

function parseToken(given: Given): ParsedArguments {
  const [name, role] = [lastOf(given, "name"), lastOf(given, "admin")];
  const scopes = parseScopes(lastOf(given, "scopes"));
  if (scopes === null) return refuse("token", "--scopes: expected scopes joined by commas, such as read,export");
  const expiresInMs = durationOf(given, "expires");
  const admin = adminRoles.find((each) => each === role) ?? null;
  if (admin !== null && scopes.length + (expiresInMs === null ? 0 : 1) > 0) {
    return refuse("token", "--admin: a token of the admin API has neither scopes nor an end");
  }
  return accept({ command: "token", args: { name, scopes, expiresInMs, admin } });
}

/** Overrides of the file and the environment. The later one wins, whether short form or `--set`. */
function readOverrides(command: CommandName, { options }: Given): Override[] | string {
  const overrides: Override[] = [];
  for (const { name, value } of options) {
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
