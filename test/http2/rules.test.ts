// Every demand of RFC 9113 and RFC 7541 that a client can break: the error code, and whether it ends the stream or the
// connection. In one piece and cut into bytes, since a frame comes as the network cuts it.
import { expect, test } from "vitest";
import { begin, Conversation } from "./conversation.ts";
import { beginnings, rules } from "./rules.ts";

test.each(beginnings)("%s: %s", (_section, _claim, sent, outcome) => {
  for (const pieceBytes of [sent.length, 1, 7]) expect(new Conversation().send(sent, pieceBytes).outcome).toBe(outcome);
});

test.each(rules)("%s: %s", (_section, _claim, sent, outcome) => {
  const events = [sent.length, 1, 7].map((pieceBytes) => {
    const conversation = new Conversation(2).send(begin).send(sent, pieceBytes);
    expect(conversation.outcome).toBe(outcome);
    const isOver = outcome.startsWith("connection");
    expect(conversation.session.isOver).toBe(isOver);
    if (isOver) expect(conversation.session.streams.size).toBe(0);
    return conversation.events;
  });
  expect(events[1]).toEqual(events[0]);
  expect(events[2]).toEqual(events[0]);
});

test("there are 150 rules and more, and each claim stands once", () => {
  const claims = [...beginnings, ...rules].map(([section, claim]) => `${section} ${claim}`);
  expect(claims.length).toBeGreaterThan(150);
  expect(new Set(claims).size).toBe(claims.length);
});
