// Every demand of RFC 9113 and RFC 7541 that a client can break: the error code, and whether it ends the stream or the
// connection. In one piece and cut into bytes, since a frame comes as the network cuts it.
import { expect, test } from "vitest";
import { frame, frameTypes, literals } from "../support/http2-frames.ts";
import { begin, Conversation, requestFields } from "./conversation.ts";
import { beginnings, rules } from "./rules.ts";

const echo = Buffer.from("12345678");
const ping = frame(frameTypes.ping, 0, 0, echo);

test.each(beginnings)("%s: %s", (_section, _claim, sent, outcome) => {
  for (const pieceBytes of [sent.length, 1, 7]) expect(new Conversation().send(sent, pieceBytes).outcome).toBe(outcome);
});

test.each(rules)("%s: %s", (_section, _claim, sent, outcome) => {
  // The reset of a stream that was answered early leaves at once, or later.
  const cuts = [sent.length, 1, 7].flatMap((pieceBytes) =>
    [0, 30_000].map((lingerMs) => [pieceBytes, lingerMs] as const),
  );
  const [first, ...others] = cuts.map(([pieceBytes, lingerMs]) => {
    const conversation = new Conversation(2, { lingerMs }).send(begin).send(sent, pieceBytes);
    expect(conversation.outcome).toBe(outcome);
    const isOver = outcome.startsWith("connection");
    expect(conversation.session.isOver).toBe(isOver);
    if (isOver) expect(conversation.session.streams.size).toBe(0);
    else expect(conversation.send(ping).frames.at(-1)).toMatchObject({ type: frameTypes.ping, payload: echo });
    return conversation.events;
  });
  for (const events of others) expect(events).toEqual(first);
});

/** Whether a request with this field is well-formed. */
function isTaken(name: string, value: string): boolean {
  const block = literals([...requestFields("/", "GET"), [name, value]]);
  return new Conversation().send(begin).send(frame(frameTypes.headers, 5, 1, block)).outcome === "none";
}

test("8.2.1: each octet in a name and in a value is taken, or makes the request malformed", () => {
  for (let octet = 0; octet < 256; octet += 1) {
    const text = String.fromCharCode(octet);
    expect([octet, isTaken(`x${text}y`, "z")]).toEqual([octet, /[!#$%&'*+\-.^_`|~0-9a-z]/.test(text)]);
    expect([octet, isTaken("x", `y${text}z`)]).toEqual([octet, !/[\0\r\n]/.test(text)]);
    for (const value of [`${text}z`, `z${text}`]) {
      expect([octet, isTaken("x", value)]).toEqual([octet, !/[\0\r\n\t ]/.test(text)]);
    }
  }
});

test("there are 290 rules and more, and each claim stands once", () => {
  const claims = [...beginnings, ...rules].map(([section, claim]) => `${section} ${claim}`);
  expect(claims.length).toBeGreaterThan(290);
  expect(new Set(claims).size).toBe(claims.length);
});
