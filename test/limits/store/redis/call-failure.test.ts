// Which kind of failure an error reply is, and that the log line names no key.
import { expect, test } from "vitest";
import { errorReplyFailure, failureAt, withCommand } from "../../../../src/limits/store/redis/replies.ts";

test.each([
  ["WRONGPASS invalid username-password pair or user is disabled.", "refused"],
  ["NOAUTH Authentication required.", "refused"],
  ["NOPERM this user has no permissions to run the 'evalsha' command", "refused"],
  ["ERR AUTH <password> called without any password configured for the default user", "refused"],
  ["DENIED Redis is running in protected mode", "refused"],
  ["OOM command not allowed when used memory > 'maxmemory'.", "full"],
  ["ERR Error running script (call to f_1): @user_script:1: @user_script: 1: -OOM command not allowed", "full"],
  ["READONLY You can't write against a read only replica.", "unready"],
  ["LOADING Redis is loading the dataset in memory", "unready"],
  ["MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.", "unready"],
  ["CLUSTERDOWN Hash slot not served", "unready"],
  ["TRYAGAIN Multiple keys request during rehashing of slot", "unready"],
  ["ERR max number of clients reached", "unready"],
  ["BUSY Redis is busy running a script.", "unready"],
  ["MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.", "unready"],
  ["WRONGTYPE Operation against a key holding the wrong kind of value", "failed"],
  ["", "failed"],
])("%s", (message, kind) => {
  expect(errorReplyFailure(message)).toMatchObject({ kind, detail: message });
});

test.each([
  ["ERR unknown command 'AUTH', with args beginning with: 'user' 'secret' ", "ERR unknown command 'AUTH'"],
  ["ERR bad key hg:1:{a012}:s/default/ of\r\nsomebody", "ERR bad key (key) of somebody"],
  [`ERR ${"x".repeat(1_000)}`, `ERR ${"x".repeat(196)}`],
])("%j is logged without keys, as one short line", (message, detail) => {
  expect(errorReplyFailure(message).detail).toBe(detail);
});

test.each([
  [
    "ERR Unknown Redis command called from script script: $, on @user_script:2.",
    "ERR Unknown Redis command called from script (ZADD)",
  ],
  [
    "OOM command not allowed when used memory > 'maxmemory'. script: $, on @user_script:3.",
    "OOM command not allowed when used memory > 'maxmemory' (GET)",
  ],
  [
    "ERR Error running script (call to f_$): @user_script:2: @user_script: 2: Unknown Redis command",
    "ERR Error running script (call to f_$): @user_script:2: @user_script: 2: Unknown Redis command (ZADD)",
  ],
  [
    "ERR no line of that number script: $, on @user_script:9.",
    "ERR no line of that number script: $, on @user_script:9.",
  ],
  [
    "NOPERM this user has no permissions to run the 'evalsha' command",
    "NOPERM this user has no permissions to run the 'evalsha' command",
  ],
])("%s: the command of the script is named", (message, detail) => {
  const sha = "a".repeat(40);
  const script = "local a = 1\nredis.call('ZADD', KEYS[1], 1, a)\nlocal b = redis.pcall('GET', KEYS[1])";
  const failure = { kind: "failed", detail: message.replace("$", sha) } as const;
  expect(withCommand(script, failure).detail).toBe(detail.replace("$", sha));
});

test("an address that a server names is logged as one short line", () => {
  const { detail } = failureAt(
    { host: `a\nb${"x".repeat(1_000)}`, port: 1 },
    { kind: "unreachable", detail: "ENOTFOUND" },
  );
  expect(detail).toMatch(/^[\x20-\x7e]{1,200}$/);
});
