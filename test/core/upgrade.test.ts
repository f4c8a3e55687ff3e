// Which requests may become tunnels, as far as the fields alone say.
import { expect, test } from "vitest";
import { mayUpgrade } from "../../src/core/upgrade.ts";

const offers = (...values: readonly string[]): boolean => mayOffer(values.flatMap((value) => ["Upgrade", value]));

const mayOffer = (rawHeaders: readonly string[]): boolean =>
  mayUpgrade({ method: "GET", target: "/", httpVersion: "1.1", rawHeaders }, new Set(["websocket"]));

test.each([
  ["one protocol", ["websocket"], true],
  ["it twice, with blanks and commas", ["WebSocket , ,websocket"], true],
  ["another one too", ["websocket, h2c"], false],
  ["256 bytes", [`websocket${",".repeat(247)}`], true],
  ["257 bytes", [`websocket${",".repeat(248)}`], false],
  ["257 bytes in a second field", ["websocket", `websocket${",".repeat(248)}`], false],
])("%s", (_, values, may) => {
  expect(offers(...values)).toBe(may);
});

test.each([
  ["a length of 0", ["Content-Length", "0"], true],
  ["a length of 1", ["content-length", "1"], false],
  ["another spelling of 0", ["Content-Length", "00"], false],
  ["an empty length", ["Content-Length", ""], false],
  ["two lengths", ["Content-Length", "0", "Content-Length", "1"], false],
  ["chunks", ["Transfer-Encoding", "chunked"], false],
  ["chunks and a length of 0", ["Content-Length", "0", "Transfer-Encoding", "chunked"], false],
  ["an expectation", ["Content-Length", "0", "Expect", "100-continue"], false],
  ["0 in a value of another field", ["X-Content-Length", "5"], true],
])("an offer with %s", (_, fields, may) => {
  expect(mayOffer(["Upgrade", "websocket", ...fields])).toBe(may);
});
