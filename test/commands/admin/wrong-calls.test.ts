// Wrong calls of the commands that ask a gateway, with what they are answered. None of them reaches a gateway.
import { expect, test } from "vitest";
import { run } from "../../../src/commands/admin/run.ts";
import { parseArguments } from "../../../src/commands/arguments.ts";
import { exitCodes } from "../../../src/commands/io.ts";
import { testIo } from "../test-io.ts";

const table: readonly (readonly [line: string, message: string])[] = [
  ["staus", 'unknown command "staus"; did you mean "status"?'],
  ["unblock 10.0.0.1", 'unknown command "unblock"; "headgate rules remove <id>" ends a block'],
  ["forgiv 10.0.0.1", 'unknown command "forgiv"; did you mean "forgive"?'],
  ["take back", 'unknown command "take"'],
  ["takeback", 'unknown command "takeback"; did you mean "take-back"?'],
  ["config-diff", 'unknown command "config-diff"'],
  ["client", 'unknown command "client"; did you mean "clients"?'],
  ["--json status", 'found "--json", expected a command before any option'],
  ["-s status", 'found "-s", expected a command before any option'],
  ["help statu", 'unknown command "statu"; did you mean "status"?'],
  ["status now", 'found "now", expected an option'],
  ["status --jsn", 'unknown option "--jsn"; did you mean "--json"?'],
  ["status --json=yes", "--json takes no value"],
  ["status --json yes", 'found "yes", expected an option'],
  ["status --socket", "--socket: found no value, expected a file"],
  ["status --socket --json", "--socket: found no value, expected a file"],
  ["status --socket a --url https://a", "--socket: found with --url, expected one of the two"],
  ["status --url", "--url: found no value, expected a URL"],
  [
    "status --url ftp://a",
    "--url: found another text, expected the scheme, the host and the port of an admin listener, such as https://10.0.0.1:9464",
  ],
  [
    "status --url a:9464",
    "--url: found another text, expected the scheme, the host and the port of an admin listener, such as https://10.0.0.1:9464",
  ],
  [
    "status --url 10.0.0.1:9464",
    "--url: found another text, expected the scheme, the host and the port of an admin listener, such as https://10.0.0.1:9464",
  ],
  ["status --url https://a", "--url: found no --token-file, expected one, since the API asks for a token over TCP"],
  [
    "status --url https://u:p@a --token-file t",
    "--url: found more than an address, expected the scheme, the host and the port of an admin listener, such as https://10.0.0.1:9464",
  ],
  [
    "status --url https://a/api --token-file t",
    "--url: found more than an address, expected the scheme, the host and the port of an admin listener, such as https://10.0.0.1:9464",
  ],
  [
    "status --url https://a?x --token-file t",
    "--url: found more than an address, expected the scheme, the host and the port of an admin listener, such as https://10.0.0.1:9464",
  ],
  [
    "status --url https:// --token-file t",
    "--url: found another text, expected the scheme, the host and the port of an admin listener, such as https://10.0.0.1:9464",
  ],
  ["status --token-file t", "--token-file: found no --url, expected one"],
  ["status --token abc", 'unknown option "--token"; did you mean "--token-file"?'],
  ["status --ca c.pem", "--ca: found no https:// in --url, expected it"],
  ["status --url http://127.0.0.1:1 --token-file t --ca c.pem", "--ca: found no https:// in --url, expected it"],
  ["status --socket s --ca c.pem", "--ca: found no https:// in --url, expected it"],
  ["status --config", "--config: found no value, expected a file"],
  ["clients --sort", "--sort: found no value, expected an order"],
  ["clients --sort most-ish", '--sort: found "most-ish", expected used, share, refused or recent'],
  ["clients --sort Used", '--sort: found "Used", expected used, share, refused or recent'],
  ["clients --limit 0", '--limit: found "0", expected a whole number from 1 to 1000'],
  ["clients --limit 1001", '--limit: found "1001", expected a whole number from 1 to 1000'],
  ["clients --limit ten", '--limit: found "ten", expected a whole number from 1 to 1000'],
  ["clients --limit -1", "--limit: found no value, expected a number"],
  ["clients --limit=-1", '--limit: found "-1", expected a whole number from 1 to 1000'],
  ["clients --limit 1.5", '--limit: found "1.5", expected a whole number from 1 to 1000'],
  ["clients --limit 99999999999", '--limit: found "99999999999", expected a whole number from 1 to 1000'],
  ["clients --polcy a", 'unknown option "--polcy"; did you mean "--policy"?'],
  ["clients per-client", 'found "per-client", expected an option'],
  ["why", "found no argument, expected a request id (X-Request-Id), an address, the name of a token, or kind:value"],
  ["why a b", 'found "b" too, expected one argument'],
  [
    "why --json",
    "found no argument, expected a request id (X-Request-Id), an address, the name of a token, or kind:value",
  ],
  ["why client:", 'found nothing after "client:", expected an address or a network, such as 203.0.113.0/24'],
  ["why client:nobody", 'found another text after "client:", expected an address or a network, such as 203.0.113.0/24'],
  [
    "why client:10.0.0.0/33",
    'found another text after "client:", expected an address or a network, such as 203.0.113.0/24',
  ],
  [
    "why client:fe80::1%eth0",
    'found another text after "client:", expected an address or a network, such as 203.0.113.0/24',
  ],
  ["why key:abc", 'found another text after "key:", expected 32 hexadecimal digits in lower case'],
  [
    "why key:0123456789ABCDEF0123456789ABCDEF",
    'found another text after "key:", expected 32 hexadecimal digits in lower case',
  ],
  ["why subject:", 'found nothing after "subject:", expected a subject'],
  ["why 10.0.0.1 --for 1h", 'unknown option "--for"'],
  [
    "forgive",
    "found no argument, expected an address, the name of a token, or kind:value (client, token, subject, key)",
  ],
  ["forgive token:", 'found nothing after "token:", expected the name of a listed token'],
  [
    "forgive 236dbc4e-a7bf-435c-bac1-5bf091b10570",
    'found a request id, expected a client: "headgate why 236dbc4e-a7bf-435c-bac1-5bf091b10570" says which',
  ],
  ["forgive 10.0.0.1 10.0.0.2", 'found "10.0.0.2" too, expected one argument'],
  ["forgive 10.0.0.1 --note x", 'unknown option "--note"'],
  [
    "block",
    "found no argument, expected an address or a network, the name of a token, or kind:value (client, token, subject)",
  ],
  ["block 10.0.0.1", "--for: found nothing, expected a duration. How long it holds, from 1s to 30d."],
  ["block 10.0.0.1 --for", "--for: found no value, expected a duration"],
  ["block 10.0.0.1 --for 1", '--for: found "1", expected a duration from 1s to 30d, such as 1h'],
  ["block 10.0.0.1 --for 1w", '--for: found "1w", expected a duration from 1s to 30d, such as 1h'],
  ["block 10.0.0.1 --for 0s", '--for: found "0s", expected a duration from 1s to 30d, such as 1h'],
  ["block 10.0.0.1 --for 31d", '--for: found "31d", expected a duration from 1s to 30d, such as 1h'],
  ["block 10.0.0.1 --for -1h", "--for: found no value, expected a duration"],
  ["block 10.0.0.1 --for=-1h", '--for: found "-1h", expected a duration from 1s to 30d, such as 1h'],
  ["block 10.0.0.1 --for forever", '--for: found "forever", expected a duration from 1s to 30d, such as 1h'],
  [
    "block --for 1h",
    "found no argument, expected an address or a network, the name of a token, or kind:value (client, token, subject)",
  ],
  [
    "block key:00000000000000000000000000000000 --for 1h",
    "found a key of which only a hash is known, expected a client, a token or a subject",
  ],
  ...["localhost", "example.com", "10.0.0", "10.0.0.0/33", "10.0.0.1:443", "[::1]", "fe80::1%eth0", "alice.smith"].map(
    (word) =>
      [
        `block ${word} --for 1h`,
        `found "${word}", which reads as a host, expected an address or a network; a token of this name is token:${word}`,
      ] as const,
  ),
  [
    "block client:x --for 1h",
    'found another text after "client:", expected an address or a network, such as 203.0.113.0/24',
  ],
  [
    "block 236dbc4ea7bf435cbac15bf091b10570 --for 1h",
    'found a request id, expected a client: "headgate why 236dbc4ea7bf435cbac15bf091b10570" says which',
  ],
  [
    "block 10.0.0.1 --for 1h --id a/b",
    '--id: found "a/b", expected 1 to 64 letters, digits and . _ -, and not dots alone',
  ],
  [
    "block 10.0.0.1 --for 1h --id ..",
    '--id: found "..", expected 1 to 64 letters, digits and . _ -, and not dots alone',
  ],
  ["block 10.0.0.1 --for 1h --limit 5", 'unknown option "--limit"'],
  ["block 10.0.0.1 --for 1h --policy a", 'unknown option "--policy"'],
  ["block 10.0.0.1 --for 1h --force=yes", "--force takes no value"],
  ["block 10.0.0.1 --for 1h --note", "--note: found no value, expected a text"],
  ["block 10.0.0.1 10.0.0.2 --for 1h", 'found "10.0.0.2" too, expected one argument'],
  [
    "exempt",
    "found no argument, expected an address or a network, the name of a token, or kind:value (client, token, subject)",
  ],
  ["exempt 10.0.0.1", "--for: found nothing, expected a duration. How long it holds, from 1s to 30d."],
  ["exempt 10.0.0.1 --for 1h --limit 5", 'unknown option "--limit"'],
  ["limit 10.0.0.1 --for 1h", "--limit: found nothing, expected a number. The limit, in place of that of the policy."],
  ["limit 10.0.0.1 --limit 5", "--for: found nothing, expected a duration. How long it holds, from 1s to 30d."],
  ["limit 10.0.0.1 --limit 0 --for 1h", '--limit: found "0", expected a whole number from 1 to 1000000000'],
  ["limit 10.0.0.1 --limit 1e3 --for 1h", '--limit: found "1e3", expected a whole number from 1 to 1000000000'],
  [
    "limit 10.0.0.1 --limit 1000000001 --for 1h",
    '--limit: found "1000000001", expected a whole number from 1 to 1000000000',
  ],
  ["limit 10.0.0.1 5 --for 1h", 'found "5" too, expected one argument'],
  ["rules delete x", 'found "delete", expected remove'],
  ["rules x", 'found "x", expected remove'],
  ["rules remove", 'found nothing after "remove", expected the id of a rule'],
  ["rules remove a/b", 'found "a/b", expected 1 to 64 letters, digits and . _ -, and not dots alone'],
  ["rules remove x y", 'found "y" too, expected two arguments'],
  ["rules remove x --for 1h", 'unknown option "--for"'],
  ["reload now", 'found "now", expected an option'],
  ["reload --confirm-within", "--confirm-within: found no value, expected a duration"],
  ["reload --confirm-within 5", '--confirm-within: found "5", expected a duration from 1s to 1d, such as 5m'],
  ["reload --confirm-within 25h", '--confirm-within: found "25h", expected a duration from 1s to 1d, such as 5m'],
  ["reload --unless-refused 5%", "--unless-refused: found no --confirm-within, expected one"],
  ["reload --unconfirmed keep", "--unconfirmed: found no --confirm-within, expected one"],
  [
    "reload --confirm-within 5m --unless-refused 5",
    '--unless-refused: found "5", expected a percentage from 0% to 99%, such as 5%',
  ],
  [
    "reload --confirm-within 5m --unless-refused 99.5%",
    '--unless-refused: found "99.5%", expected a percentage from 0% to 99%, such as 5%',
  ],
  [
    "reload --confirm-within 5m --unless-refused 101%",
    '--unless-refused: found "101%", expected a percentage from 0% to 99%, such as 5%',
  ],
  [
    "reload --confirm-within 5m --unless-refused 0.05",
    '--unless-refused: found "0.05", expected a percentage from 0% to 99%, such as 5%',
  ],
  ["reload --confirm-within 5m --unconfirmed takeBack", '--unconfirmed: found "takeBack", expected take-back or keep'],
  ["confirm 5m", 'found "5m", expected an option'],
  ["take-back all", 'found "all", expected an option'],
  ["drain --now", 'unknown option "--now"'],
  ["config --against", "--against: found no value, expected previous"],
  ["config --against last", '--against: found "last", expected previous'],
  ["config previous", 'found "previous", expected an option'],
  ["completions", "found no argument, expected the shell"],
  ["completions csh", 'found "csh", expected bash, zsh or fish; did you mean "zsh"?'],
  ["completions bash zsh", 'found "zsh" too, expected one argument'],
  ["completions --shell bash", 'unknown option "--shell"'],
  ["why ''", "found no argument, expected a request id (X-Request-Id), an address, the name of a token, or kind:value"],
];

/** Returns what a command line is answered, without that it reaches a gateway. */
async function answerTo(argv: readonly string[]): Promise<string> {
  const parsed = parseArguments(argv);
  if (!parsed.ok) return parsed.message;
  if (parsed.invocation.command !== "admin") throw new Error("it asks no gateway");
  const io = testIo();
  expect(await run(parsed.invocation.args, io, "1")).toBe(exitCodes.usage);
  const [, message = ""] = /^headgate [a-z-]+: (.*)\nTry "headgate [a-z-]+ --help"\.\n$/.exec(io.errText()) ?? [];
  return message;
}

test.each(table)("%s", async (line, message) => {
  expect(await answerTo(line === "why ''" ? ["why", ""] : line.split(" "))).toBe(message);
});

test("there are more than a hundred, each once", () => {
  expect(new Set(table.map(([line]) => line)).size).toBe(table.length);
  expect(table.length).toBeGreaterThan(100);
});

test("no message shows what may be a secret", async () => {
  for (const line of [
    "status --url https://u:secret@a --token-file t",
    "status --url https://a?secret --token-file t",
  ]) {
    expect(await answerTo(line.split(" "))).not.toContain("secret");
  }
});
