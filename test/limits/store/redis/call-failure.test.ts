// Which kind of failure an error reply is, and that the log line names no key.
import { expect, test } from "vitest";
import { errorReplyFailure } from "../../../../src/limits/store/redis/replies.ts";

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
