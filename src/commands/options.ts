// Defines every command and option once, with the sentence that `--help` shows. The parser and the help use the same
// table.

export const commandNames = ["start", "check", "demo", "token", "finance-backend"] as const;
export type CommandName = (typeof commandNames)[number];

export interface Option {
  /** The kind of value, for help and errors; null if the option takes none. */
  readonly value: string | null;
  readonly means: string;
  readonly short?: string;
  /** The setting that the option is a short form of. */
  readonly key?: string;
  /** Another value follows the first. */
  readonly second?: string;
  /** A port that is not a setting and so is checked with the arguments. */
  readonly isPort?: boolean;
}

type Options = Readonly<Record<string, Option>>;

const help: Options = { help: { value: null, short: "h", means: "Print this help." } };

const settings: Options = {
  config: { value: "a file", means: "The configuration (default: HEADGATE_CONFIG, else the packaged one)." },
  upstream: { value: "a URL", key: "upstream.url", means: "The API behind the gateway." },
  host: { value: "an address", key: "listen.host", means: "Where the gateway listens." },
  port: { value: "a number", key: "listen.port", means: "Where the gateway listens; 0 picks a free port." },
  "admin-host": { value: "an address", key: "admin.host", means: "Where metrics and health are served." },
  "admin-port": { value: "a number", key: "admin.port", means: "Where metrics and health are served." },
  set: { value: "key.path=value", means: "Any key of the configuration; may be repeated." },
};

const commands: Readonly<Record<CommandName, { readonly means: string; readonly options: Options }>> = {
  start: { means: "Run the gateway.", options: { ...settings, ...help } },
  check: {
    means: "Check the configuration and list all errors, without opening a port.",
    options: {
      ...settings,
      diff: {
        value: "a file",
        second: "a file",
        means: "Show what a reload from the first file to the second would change, instead.",
      },
      ...help,
    },
  },
  demo: {
    means: "Run the gateway in front of the reference backend, on this machine only.",
    options: {
      port: { value: "a number", isPort: true, means: "Where the gateway listens (default: 8080)." },
      "admin-port": { value: "a number", isPort: true, means: "Where metrics and health are served (default: 9464)." },
      ...help,
    },
  },
  token: {
    means: "Make a bearer token and its digest for the tokens file.",
    options: {
      name: { value: "a name", means: "Also print the line of the tokens file, with this name." },
      scopes: { value: "scopes", means: "Also print the line, with these scopes, joined by commas." },
      expires: { value: "a duration", means: "Also print the line, with the end after this time, such as 90d." },
      admin: { value: "read or write", means: "Print the line for admin.tokensFile instead." },
      ...help,
    },
  },
  "finance-backend": {
    means: "Run the reference backend without the gateway.",
    options: {
      host: { value: "an address", means: "Where the backend listens (default: 127.0.0.1)." },
      port: { value: "a number", isPort: true, means: "Where the backend listens (default: 3000)." },
      database: { value: "a file", means: "The SQLite file for the data (default: in memory)." },
      ...help,
    },
  },
};

export function optionsOf(command: CommandName): Options {
  return commands[command].options;
}

export function helpText(topic: CommandName | null): string {
  if (topic === null) {
    return [
      "headgate: a rate-limiting reverse-proxy gateway",
      "",
      "usage: headgate <command> [options]",
      "",
      ...columns([
        ...commandNames.map((name) => [name, commands[name].means] as const),
        ["<command> --help", "Print the options of a command."],
        ["--version", "Print the version."],
      ]),
      "",
    ].join("\n");
  }
  const { means, options } = commands[topic];
  const rows = Object.entries(options).map(([name, { value, second, short, means }]): [string, string] => {
    const names = short === undefined ? `--${name}` : `-${short}, --${name}`;
    const values = [value, second].filter((each) => typeof each === "string");
    return [[names, ...values.map((each) => `<${each.replace(/^an? /, "")}>`)].join(" "), means];
  });
  return [`usage: headgate ${topic} [options]`, "", means, "", ...columns(rows), ""].join("\n");
}

function columns(rows: readonly (readonly [string, string])[]): string[] {
  const width = Math.max(...rows.map(([left]) => left.length));
  return rows.map(([left, right]) => `  ${left.padEnd(width)}  ${right}`);
}
