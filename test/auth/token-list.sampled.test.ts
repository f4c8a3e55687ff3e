import fc from "fast-check";
import { expect, test } from "vitest";
import { createAuthenticator } from "../../src/auth/authenticator.ts";
import { TokenList } from "../../src/auth/tokens-file.ts";
import { systemClock } from "../../src/core/clock.ts";
import { runs } from "../support/runs.ts";
import { digestOf } from "./digest.ts";

const listOf = (...digests: string[]): TokenList => new TokenList(digests.map((digest) => ({ digest, name: null })));

test("has the tokens whose digests are listed, and no other", () => {
  const list = listOf(digestOf("mobile"), digestOf("web").toUpperCase());
  expect(list.size).toBe(2);
  for (const token of ["mobile", "web"]) expect(list.has(token)).toBe(true);
  for (const token of ["Mobile", "mobile ", "mobil", "mobilee", "", "web\0"]) expect(list.has(token)).toBe(false);
});

test("a digest is not a token: who reads the file cannot come in with it", () => {
  const digest = digestOf("mobile");
  const list = listOf(digest);
  for (const stolen of [digest, digest.toUpperCase(), Buffer.from(digest, "hex").toString("base64")]) {
    expect(list.has(stolen)).toBe(false);
  }
  expect(list.has(Buffer.from(digest, "hex").toString("latin1"))).toBe(false);
});

test("a digest given twice is one", () => {
  expect(listOf(digestOf("a"), digestOf("a").toUpperCase()).size).toBe(1);
});

test("an empty list has nothing, not even the empty token", () => {
  const list = listOf();
  expect(list.size).toBe(0);
  expect(list.has("")).toBe(false);
});

test("the set of names is made once, because each rule about a token asks for it", () => {
  const list = new TokenList(["a", "b", null].map((name, i) => ({ digest: digestOf(`${i}`), name })));
  expect([...list.names()]).toEqual(["a", "b"]);
  expect(list.names()).toBe(list.names());
});

test("is a set of tokens", () => {
  const token = fc.stringMatching(/^[A-Za-z0-9\-._~+/]{0,20}=?$/);
  fc.assert(
    fc.property(fc.array(token, { maxLength: 8 }), token, (listed, asked) => {
      const list = listOf(...listed.map(digestOf));
      expect(list.size).toBe(new Set(listed).size);
      expect(list.has(asked)).toBe(listed.includes(asked));
      for (const one of listed) expect(list.has(one)).toBe(true);
    }),
    runs(1000),
  );
});

test("a token stands for its name and digest, by one object for all of its requests", () => {
  const named = { digest: digestOf("mobile").toUpperCase(), name: "partner" };
  const value = new TokenList([named, { digest: digestOf("web"), name: null }]);
  const { authenticate } = createAuthenticator(
    {
      value,
      isCurrent: true,
      onChange: () => {},
      close: () => {},
    },
    systemClock,
  );
  const ask = (token: string) => authenticate({ kind: "token", token }, "tokens");
  const partner = {
    tokenDigest: digestOf("mobile"),
    tokenName: "partner",
    subject: "partner",
    scopes: [],
    endsMs: null,
    claims: new Map(),
  };
  expect(ask("mobile")).toEqual(partner);
  expect(ask("mobile")).toBe(ask("mobile"));
  expect(ask("web")).toEqual({ ...partner, tokenDigest: digestOf("web"), tokenName: null, subject: null });
  expect(ask("partner")).toBe("invalid");
});

test("of two names for one digest, the first counts", () => {
  const digest = digestOf("a");
  const names = [null, "first", "second"];
  expect(new TokenList(names.map((name) => ({ digest, name }))).find("a")?.tokenName).toBe("first");
});
