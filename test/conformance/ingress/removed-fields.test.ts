// The shipped files of nginx, HAProxy and Caddy against the table of fields that our own proxy drops of an untrusted peer.
import { describe, expect, test } from "vitest";
import { FieldNames, ownNames } from "../../../src/core/field-names.ts";
import { droppedNames, removals } from "./removed-fields.ts";

const names = new FieldNames([], []);
/** What a backend needs, and what the ingress sets itself. */
const kept = [
  ...[...ownNames].filter((name) => !names.isDropped(name)),
  ..."cookie accept content-type user-agent if-none-match x-csrf-token idempotency-key x-api-key".split(" "),
  ..."x-client-id client-ident x-forward x-original-method x-real-name my-client-ip proxy-client".split(" "),
];

describe.each(Object.entries(removals))("%s", (_, removes) => {
  test("the file removes every field of the table", () => {
    expect(droppedNames.filter((name) => !removes(name))).toEqual([]);
  });

  test("the file leaves every other field", () => {
    expect(kept.filter(removes)).toEqual([]);
  });
});

test("HAProxy, which passes other spellings on, removes them too", () => {
  const odd = droppedNames.flatMap((name) => ["_", "."].map((character) => name.replaceAll("-", character)));
  expect(odd.filter((name) => !removals["HAProxy"]?.(name))).toEqual([]);
});
