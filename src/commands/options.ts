// Defines every command with its arguments and options once, with the sentences that `--help` shows. The parser, the help, the
// completions and the page about the commands use the same table.

/** Commands that need no running gateway. */
const ownCommands = ["start", "check", "demo", "token", "finance-backend", "completions"] as const;

/** Commands that ask a running gateway, by its admin API. */
export const adminCommands = [
  ...(["status", "clients", "why", "forgive", "block", "exempt", "limit", "rules"] as const),
  ...(["reload", "confirm", "take-back", "drain", "config", "console"] as const),
] as const;

export const commandNames = [...ownCommands, ...adminCommands] as const;

export type AdminCommandName = (typeof adminCommands)[number];
export type CommandName = (typeof commandNames)[number];

export const shells = ["bash", "zsh", "fish"] as const;

/** What a value must be. Values of settings are checked with the configuration instead. */
export type ValueForm =
  | { readonly kind: "number"; readonly from: number; readonly to: number }
  /** Written with units. */
  | { readonly kind: "duration"; readonly from: string; readonly to: string; readonly example: string }
  /** Such as `5%`; more than 0 and at most 100. */
  | { readonly kind: "percentage"; readonly example: string }
  | { readonly kind: "words"; readonly words: readonly string[] }
  | { readonly kind: "pattern"; readonly pattern: RegExp; readonly expected: string };

export interface Option {
  /** The kind of value, for help and errors; null if the option takes none. */
  readonly value: string | null;
  readonly means: string;
  readonly short?: string;
  /** The setting that the option is a short form of. */
  readonly key?: string;
  /** Another value follows the first. */
  readonly second?: string;
  readonly form?: ValueForm;
  readonly isRequired?: true;
}

export type Options = Readonly<Record<string, Option>>;

/** A word that is no option. */
export interface Positional {
  /** As the usage shows it. */
  readonly name: string;
  /** What it is, for help and errors. */
  readonly means: string;
  /** It and those that follow it may be left out together. */
  readonly isOptional?: true;
  /** It is one of these words. */
  readonly words?: readonly string[];
}

export interface Command {
  readonly means: string;
  readonly positionals?: readonly Positional[];
  readonly options: Options;
  /** What follows the name of the command. */
  readonly examples: readonly [string, string];
  /** The call of the admin API whose answer `--json` prints. */
  readonly answer?: string;
}

const help: Options = { help: { value: null, short: "h", means: "Print this help." } };

function number(from: number, to: number, means: string): Option {
  return { value: "a number", form: { kind: "number", from, to }, means };
}

function port(means: string): Option {
  return number(0, 65535, means);
}

function duration(from: string, to: string, example: string, means: string): Option {
  return { value: "a duration", form: { kind: "duration", from, to, example }, means };
}

/** `value`: as in Option. */
function word(value: string, words: readonly string[], means: string): Option {
  return { value, form: { kind: "words", words }, means };
}

const settings: Options = {
  config: {
    value: "a file",
    means: "The configuration (default: HEADGATE_CONFIG, else the packaged one). - is standard input.",
  },
  upstream: { value: "a URL", key: "upstream.url", means: "The API behind the gateway." },
  host: { value: "an address", key: "listen.host", means: "Where the gateway listens." },
  port: { value: "a number", key: "listen.port", means: "Where the gateway listens; 0 picks a free port." },
  "admin-host": { value: "an address", key: "admin.host", means: "Where metrics and health are served." },
  "admin-port": { value: "a number", key: "admin.port", means: "Where metrics and health are served." },
  set: { value: "key.path=value", means: "Any key of the configuration; may be repeated." },
};

/** How a running gateway is reached, and the form of what is printed. */
const gateway: Options = {
  socket: { value: "a file", means: "The gateway's Unix socket (default: admin.socket of the configuration)." },
  url: {
    value: "a URL",
    means: "The gateway's admin listener instead, such as https://10.0.0.1:9464; needs --token-file.",
  },
  "token-file": { value: "a file", means: "The token for --url, alone in a file." },
  ca: { value: "a file", means: "Certificates that are trusted for --url, in PEM (default: those of the system)." },
  config: { value: "a file", means: "Where admin.socket is set (default: HEADGATE_CONFIG, else the packaged one)." },
  json: { value: null, means: "Print the answer as JSON." },
  ...help,
};

const whom: Positional = {
  name: "whom",
  means: "an address, the name of a token, or kind:value (client, token, subject, key)",
};

export const ruleId = {
  kind: "pattern",
  pattern: /^(?!\.+$)[A-Za-z0-9._-]{1,64}$/,
  expected: "1 to 64 letters, digits and . _ -, and not dots alone",
} as const satisfies ValueForm;

/** Of a rule that holds while the gateway runs. */
const ruleOptions: Options = {
  for: { ...duration("1s", "30d", "1h", "How long it holds, from 1s to 30d."), isRequired: true },
  note: { value: "a text", means: "Why, for people." },
  id: { value: "an id", form: ruleId, means: "The id of the rule (default: made of what it does and for whom)." },
  force: { value: null, means: "Also if it covers a trusted proxy, a trusted caller, or yourself." },
};

const ruledKey: Positional = {
  name: "whom",
  means: "an address or a network, the name of a token, or kind:value (client, token, subject)",
};

/** Names that an override of a policy can mention: a digest is not a name. */
const tokenName: ValueForm = {
  kind: "pattern",
  pattern: /^(?![0-9a-fA-F]{64}$)[A-Za-z0-9](?:[A-Za-z0-9 ._@-]{0,62}[A-Za-z0-9._@-])?$/,
  expected: "at most 64 letters, digits, blanks and . _ @ -, beginning with a letter or digit",
};

export const commands: Readonly<Record<CommandName, Command>> = {
  start: {
    means: "Run the gateway.",
    options: { ...settings, ...help },
    examples: ["--config /etc/headgate.yaml", "--upstream http://127.0.0.1:3000 --port 8081"],
  },
  check: {
    means: "Check the configuration and list all errors, without opening a port.",
    options: {
      ...settings,
      diff: {
        value: "a file",
        second: "a file",
        means: "Show what a reload from the first file to the second would change, instead.",
      },
      online: { value: null, means: "Also ask the servers of the store what a gateway needs of them." },
      ...help,
    },
    examples: ["--config /etc/headgate.yaml --online", "--diff /etc/headgate.yaml new.yaml"],
  },
  demo: {
    means: "Run the gateway with a reference backend and simulated clients, on loopback.",
    options: {
      port: port("Where the gateway listens (default: 8080)."),
      "admin-port": port("Where the console, metrics and health are served (default: 9464)."),
      quiet: { value: null, means: "Without the simulated clients; requests are logged." },
      ...help,
    },
    examples: ["", "--quiet --port 8081 --admin-port 9474"],
  },
  token: {
    means: "Make a bearer token and its digest for the tokens file.",
    options: {
      name: { value: "a name", form: tokenName, means: "Also print the line of the tokens file, with this name." },
      scopes: { value: "scopes", means: "Also print the line, with these scopes, joined by commas." },
      expires: duration("1s", "3650d", "90d", "Also print the line, with the end after this time, such as 90d."),
      admin: word("read or write", ["read", "write"], "Print the line for admin.tokensFile instead."),
      ...help,
    },
    examples: ["--name alice --expires 90d --scopes read,export", "--admin write --name ops"],
  },
  "finance-backend": {
    means: "Run the reference backend without the gateway.",
    options: {
      host: { value: "an address", means: "Where the backend listens (default: 127.0.0.1)." },
      port: port("Where the backend listens (default: 3000)."),
      database: { value: "a file", means: "The SQLite file for the data (default: in memory)." },
      ...help,
    },
    examples: ["", "--port 3001 --database finance.db"],
  },
  completions: {
    means: "Print the completions of the command line for a shell.",
    positionals: [{ name: "shell", means: "the shell", words: shells }],
    options: help,
    examples: ["bash > /etc/bash_completion.d/headgate", "fish > ~/.config/fish/completions/headgate.fish"],
  },
  status: {
    means: "Say what a gateway runs with, and how its upstream and its store are.",
    options: gateway,
    examples: ["", "--url https://10.0.0.1:9464 --token-file ops.token --ca ca.pem"],
    answer: "GET /api/status",
  },
  clients: {
    means: "List who has used most, or was throttled most.",
    options: {
      policy: { value: "a name", means: "Keys of this policy alone." },
      sort: word(
        "an order",
        ["used", "share", "refused", "recent"],
        "used, share (of the limit), refused (throttled) or recent, the largest first (default: used).",
      ),
      search: { value: "a text", means: "Only keys that begin with it, such as 203.0.113." },
      limit: number(1, 1000, "At most so many (default: 20)."),
      watch: { value: null, means: "Again every 2 s, until Ctrl-C." },
      ...gateway,
    },
    examples: ["--sort refused --watch", "--policy per-ip --search 203.0.113."],
    answer: "GET /api/clients",
  },
  why: {
    means: "Say why a request or a client is refused, until when, and what to do about it.",
    positionals: [
      {
        name: "request or client",
        means: "a request id (X-Request-Id), an address, the name of a token, or kind:value",
      },
    ],
    options: gateway,
    examples: ["203.0.113.7", "236dbc4e-a7bf-435c-bac1-5bf091b10570"],
  },
  forgive: {
    means: "Forget what the policies have counted of a client, so that it is admitted again.",
    positionals: [whom],
    options: gateway,
    examples: ["203.0.113.7", "alice"],
    answer: "DELETE /api/clients/{key}",
  },
  block: {
    means: "Answer a client 403, until an end.",
    positionals: [ruledKey],
    options: { ...ruleOptions, ...gateway },
    examples: ["203.0.113.7 --for 1h --note scraper", "203.0.113.0/24 --for 30m --id inc-123"],
    answer: "PUT /api/rules/{id}",
  },
  exempt: {
    means: "Limit a client no more, until an end.",
    positionals: [ruledKey],
    options: {
      policy: { value: "a name", means: "By this policy alone (default: by all)." },
      ...ruleOptions,
      ...gateway,
    },
    examples: ["203.0.113.7 --for 1h", "alice --policy per-token --for 8h --note INC-124"],
    answer: "PUT /api/rules/{id}",
  },
  limit: {
    means: "Give a client another limit, until an end.",
    positionals: [ruledKey],
    options: {
      limit: { ...number(1, 1_000_000_000, "The limit, in place of that of the policy."), isRequired: true },
      policy: { value: "a name", means: "The policy; needed if there are several." },
      ...ruleOptions,
      ...gateway,
    },
    examples: ["203.0.113.7 --limit 500 --for 1h", "alice --policy per-token --limit 5000 --for 8h"],
    answer: "PUT /api/rules/{id}",
  },
  rules: {
    means: "List the rules that hold, or end one before its time.",
    positionals: [
      { name: "remove", means: "remove, and the id of a rule", words: ["remove"], isOptional: true },
      { name: "id", means: "the id of a rule" },
    ],
    options: gateway,
    examples: ["", "remove block-203.0.113.7"],
    answer: "GET /api/rules, or DELETE /api/rules/{id}",
  },
  reload: {
    means: "Load the configuration again, for good or on trial.",
    options: {
      "confirm-within": duration(
        "1s",
        "1d",
        "5m",
        "On trial: without `headgate confirm` in this time, it is taken back.",
      ),
      "unless-refused": {
        value: "a share",
        form: { kind: "percentage", example: "5%" },
        means: "Take it back at once if it refuses more of the requests that the old one admits.",
      },
      unconfirmed: word(
        "take-back or keep",
        ["take-back", "keep"],
        "What happens when the time is over (default: take-back).",
      ),
      ...gateway,
    },
    examples: ["", "--confirm-within 5m --unless-refused 5%"],
    answer: "POST /api/reload",
  },
  confirm: {
    means: "Keep the configuration that is on trial.",
    options: gateway,
    examples: ["", "--json"],
    answer: "POST /api/reload/confirm",
  },
  "take-back": {
    means: "End a trial: the configuration from before is in force again.",
    options: gateway,
    examples: ["", "--json"],
    answer: "POST /api/reload/take-back",
  },
  drain: {
    means: "Drain and end a gateway, as SIGTERM does.",
    options: gateway,
    examples: ["", "--json"],
    answer: "POST /api/drain",
  },
  config: {
    means: "Show the configuration in force, and where each value was written.",
    options: {
      against: word("previous", ["previous"], "Show what the last reload has changed, instead."),
      ...gateway,
    },
    examples: ["", "--against previous"],
    answer: "GET /api/config",
  },
  console: {
    means: "Open the page and the API on a port of this machine, until Ctrl-C.",
    options: {
      port: port("The port on 127.0.0.1 (default: a free one)."),
      read: { value: null, means: "Only calls that change nothing." },
      ...gateway,
    },
    examples: ["", "--port 9465 --read"],
  },
};

export function optionsOf(command: CommandName): Options {
  return commands[command].options;
}
