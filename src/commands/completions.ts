// `headgate completions`: scripts by which a shell completes commands, options and their words, made of the table of commands.
import type { Shell } from "./arguments.ts";
import { type CommandIo, exitCodes } from "./io.ts";
import { commandNames, commands, type Option } from "./options.ts";

export async function run({ shell }: { readonly shell: Shell }, io: CommandIo): Promise<number> {
  io.out({ bash: bashScript, zsh: zshScript, fish: fishScript }[shell]());
  return exitCodes.ok;
}

/** What a value or a word can be; a file is completed by the shell itself. */
type CompletedValues = readonly string[] | "files" | null;

function valuesOf({ value, form }: Option): CompletedValues {
  if (value === null) return null;
  if (form?.kind === "words") return form.words;
  return value === "a file" ? "files" : [];
}

/** All commands. `words`: those of the first argument. */
const described = () =>
  commandNames.map((name) => {
    const { means, options, positionals = [] } = commands[name];
    const flags = Object.entries(options).map(([option, of]) => ({
      ...{ flag: `--${option}`, means: of.means, values: valuesOf(of), isPair: of.second !== undefined },
    }));
    return { name, means, words: positionals[0]?.words ?? [], options: flags };
  });

function bashScript(): string {
  const cases = described().flatMap(({ name, options, words }) => {
    const valued = options.filter(({ values }) => values !== null);
    const files = valued.filter(({ values }) => values === "files").map(({ flag }) => flag);
    const texts = valued.filter(({ values }) => Array.isArray(values) && values.length === 0).map(({ flag }) => flag);
    return [
      `    ${name})`,
      `      options="${options.map(({ flag }) => flag).join(" ")}"`,
      `      words="${words.join(" ")}"`,
      "      case $before in",
      ...(files.length === 0 ? [] : [`        ${files.join("|")}) COMPREPLY=($(compgen -f -- "$word")); return ;;`]),
      ...valued.flatMap(({ flag, values }) =>
        Array.isArray(values) && values.length > 0
          ? [`        ${flag}) COMPREPLY=($(compgen -W "${values.join(" ")}" -- "$word")); return ;;`]
          : [],
      ),
      ...(texts.length === 0 ? [] : [`        ${texts.join("|")}) return ;;`]),
      "      esac ;;",
    ];
  });
  return `${[
    "# Completions of headgate for bash: headgate completions bash > /etc/bash_completion.d/headgate",
    "_headgate() {",
    "  local word=$2 before=$3 options= words=",
    "  COMPREPLY=()",
    '  if [ "$COMP_CWORD" -eq 1 ]; then',
    `    COMPREPLY=($(compgen -W "${commandNames.join(" ")} --help --version" -- "$word"))`,
    "    return",
    "  fi",
    `  case $\{COMP_WORDS[1]} in`,
    ...cases,
    "    *) return ;;",
    "  esac",
    '  if [ "$COMP_CWORD" -gt 2 ]; then words=; fi',
    '  COMPREPLY=($(compgen -W "$options $words" -- "$word"))',
    "}",
    "complete -o filenames -F _headgate headgate",
  ].join("\n")}\n`;
}

function zshScript(): string {
  const quote = (text: string): string => text.replaceAll("'", "'\\''").replaceAll(/[[\]:]/g, "\\$&");
  const action = (values: CompletedValues): string => (values === "files" ? "_files" : `(${(values ?? []).join(" ")})`);
  const cases = described().flatMap(({ name, options, words }) => [
    `    ${name})`,
    "      _arguments \\",
    ...options.map(({ flag, means, values, isPair }) => {
      const value = values === null ? "" : `:value:${action(values)}`;
      return `        '${flag}[${quote(means)}]${value}${isPair ? value : ""}' \\`;
    }),
    `        '*:argument:(${words.join(" ")})' ;;`,
  ]);
  return `${[
    "#compdef headgate",
    "# Completions of headgate for zsh: in a folder of fpath, as _headgate",
    "_headgate() {",
    "  local -a commands",
    "  commands=(",
    ...described().map(({ name, means }) => `    '${name}:${quote(means)}'`),
    "  )",
    "  if (( CURRENT == 2 )); then",
    "    _describe command commands",
    "    return",
    "  fi",
    "  local command=$words[2]",
    "  (( CURRENT -= 1 ))",
    "  shift words",
    "  case $command in",
    ...cases,
    "  esac",
    "}",
    'if [ "$funcstack[1]" = _headgate ]; then _headgate "$@"; else compdef _headgate headgate; fi',
  ].join("\n")}\n`;
}

function fishScript(): string {
  const quote = (text: string): string => text.replaceAll("\\", "\\\\").replaceAll("'", "\\'");
  const lines = described().flatMap(({ name, means, options, words }) => [
    `complete -c headgate -n __fish_use_subcommand -f -a ${name} -d '${quote(means)}'`,
    ...options.map(({ flag, means: what, values }) => {
      const value =
        values === null
          ? ""
          : values === "files"
            ? " -r -F"
            : ` -x${values.length === 0 ? "" : ` -a '${values.join(" ")}'`}`;
      return `complete -c headgate -n '__fish_seen_subcommand_from ${name}' -f -l ${flag.slice(2)}${value} -d '${quote(what)}'`;
    }),
    ...(words.length === 0
      ? []
      : [`complete -c headgate -n '__fish_seen_subcommand_from ${name}' -f -a '${words.join(" ")}'`]),
  ]);
  return `${["# Completions of headgate for fish: headgate completions fish > ~/.config/fish/completions/headgate.fish", ...lines].join("\n")}\n`;
}
