// Which headers `clientAddress.dropHeaders` and the key of a policy take: none that frames a message or is read otherwise, and
// none that would be refused anyway because a server may take it for one of those.
import { describe, expect, test } from "vitest";
import { policies } from "../../src/config/policies.ts";
import { clientAddress } from "../../src/config/requests.ts";
import { ownNames, vouchingNames } from "../../src/core/field-names.ts";

const dropped = (name: string): unknown => clientAddress.keys.dropHeaders.item.parse(name);
const inKey = (name: string): unknown => policies.item.keys.key.item.parse(`header:${name}`);

describe("dropHeaders", () => {
  test.each([
    "X-SSL-Client-CN",
    "Remote-User",
    "$WSRU",
    "api_key",
    "Cookie",
    "User-Agent",
    "traceparent",
    "Proxy",
    "_",
  ])("takes %s", (name) => expect(dropped(name)).toBe(name.toLowerCase()));

  test("takes what is dropped anyway, apart from what the gateway reads", () => {
    for (const name of vouchingNames)
      expect([name, dropped(name)]).toEqual([name, name === "forwarded" ? undefined : name]);
    expect(dropped("X-Forwarded-User")).toBe("x-forwarded-user");
  });

  test.each([
    ...["Host", "Content-Length", "Transfer-Encoding", "Connection", "Upgrade", "TE", "Trailer", "Expect", "Via"],
    ...["Authorization", "Proxy-Authorization", "X-Request-Id", "X-Forwarded-For", "Forwarded", "Origin"],
    ...["X-HTTP-Method-Override", "Max-Forwards", "Access-Control-Request-Method", "Keep-Alive", "HTTP2-Settings"],
  ])("does not take %s, in no spelling", (name) => {
    const spellings = [
      name,
      name.toLowerCase(),
      name.toUpperCase(),
      ...(name.includes("-") ? [name.replace("-", "_")] : []),
    ];
    for (const spelling of spellings) expect([spelling, dropped(spelling)]).toEqual([spelling, undefined]);
    expect(ownNames.has(name.toLowerCase())).toBe(true);
  });

  test.each([
    "",
    "X User",
    "X:User",
    "X-Us\u00e9r",
    ":path",
    "x".repeat(129),
    "X_Forwarded_User",
    "Client_IP",
    "-wsra",
  ])("does not take %j", (name) => expect(dropped(name)).toBeUndefined());
});

describe("header:NAME", () => {
  test.each(["X-API-Key", "api_key", "Api.Key", "SFDC_STACK_DEPTH"])("takes %s", (name) => {
    expect(inKey(name)).toBe(`header:${name.toLowerCase()}`);
  });

  test.each(["X_Forwarded_For", "X.Request.Id", "True_Client_IP", "content_length"])("does not take %s", (name) => {
    expect(inKey(name)).toBeUndefined();
  });
});
