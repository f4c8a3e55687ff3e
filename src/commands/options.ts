// Every command and option, once, with the sentence `--help` shows for it. The parser and the help are held together
// by reading the same table.

export const commandNames = ["start", "check", "demo", "token", "finance-backend"] as const;
export type CommandName = (typeof commandNames)[number];

export interface Option {
  /** What the value is, for help and errors; null if there is none. */
  readonly value: string | null;
  readonly means: string;
  readonly short?: string;
  /** The setting it is a shorthand for. */
  readonly key?: string;
  /** Checked here, since it is no setting. */
  readonly isPort?: boolean;
}

type Options = Readonly<Record<string, Option>>;

const help: Options = { help: { value: null, short: "h", means: "Print this and end." } };

const settings: Options = {
  config: { value: "a file", means: "The configuration (default: HEADGATE_CONFIG, else the packaged one)." },
  upstream: { value: "a URL", key: "upstream.url", means: "The API behind the gateway." },
  host: { value: "an address", key: "listen.host", means: "Where clients connect." },
  port: { value: "a number", key: "listen.port", means: "Where clients connect; 0 picks a free port." },
  "admin-host": { value: "an address", key: "admin.host", means: "Where metrics and health are served." },
  "admin-port": { value: "a number", key: "admin.port", means: "Where metrics and health are served." },
  set: { value: "key.path=value", means: "Any other key of the configuration; can be repeated." },
};

const commands: Readonly<Record<CommandName, { readonly means: string; readonly options: Options }>> = {
  start: { means: "Run the gateway.", options: { ...settings, ...help } },
  check: { means: "Check the configuration, list every mistake, open no port.", options: { ...settings, ...help } },
  demo: {
    means: "Run the gateway in front of the reference backend, on this machine only.",
    options: {
      port: { value: "a number", isPort: true, means: "Where the gateway listens (default: 8080)." },
      "admin-port": { value: "a number", isPort: true, means: "Where metrics and health are served (default: 9464)." },
      ...help,
    },
  },
  token: { means: "Make a bearer token and the digest to list in the tokens file.", options: help },
  "finance-backend": {
    means: "Run the reference backend alone.",
    options: {
      host: { value: "an address", means: "Where it listens (default: 127.0.0.1)." },
      port: { value: "a number", isPort: true, means: "Where it listens (default: 3000)." },
      database: { value: "a file", means: "Keep the data in this SQLite file (default: in memory)." },
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
        ["<command> --help", "The options of a command."],
        ["--version", "The version."],
      ]),
      "",
    ].join("\n");
  }
  const { means, options } = commands[topic];
  const rows = Object.entries(options).map(([name, { value, short, means }]): [string, string] => {
    const names = short === undefined ? `--${name}` : `-${short}, --${name}`;
    return [value === null ? names : `${names} <${value.replace(/^an? /, "")}>`, means];
  });
  return [`usage: headgate ${topic} [options]`, "", means, "", ...columns(rows), ""].join("\n");
}

function columns(rows: readonly (readonly [string, string])[]): string[] {
  const width = Math.max(...rows.map(([left]) => left.length));
  return rows.map(([left, right]) => `  ${left.padEnd(width)}  ${right}`);
}
