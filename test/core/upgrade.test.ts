// Which requests may become tunnels, as far as the fields alone say.
import { expect, test } from "vitest";
import { mayUpgrade } from "../../src/core/upgrade.ts";

const offers = (...values: readonly string[]): boolean =>
  mayUpgrade(
    { method: "GET", httpVersion: "1.1", rawHeaders: values.flatMap((value) => ["Upgrade", value]) },
    new Set(["websocket"]),
  );

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
