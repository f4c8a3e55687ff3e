// What a line looks like, and that no credential gets into one.
import { expect, test } from "vitest";
import { changeLog, loggedPath, redactLine } from "../../src/telemetry/log.ts";
import { FakeClock, keptLog } from "./lines.ts";

test("a line is one JSON object with the level as a word and the time of the clock, and says nothing of the machine", () => {
  const { log, written } = keptLog();
  log.warn({ reason: "refused" }, "upstream failed");
  expect(written).toEqual(['{"level":"warn","time":1700000005000,"reason":"refused","msg":"upstream failed"}\n']);
});

test("the time is a text in UTC if that is set, also in lines of children, and after a reload what that says", () => {
  const clock = new FakeClock();
  const { log, lines } = keptLog("info", clock, "iso");
  const child = log.child({}, { level: "warn" });
  const settings = { level: "info", time: "iso" } as const;
  const times = () => {
    log.info("one");
    child.warn("two");
    return lines()
      .slice(-2)
      .map(({ time }) => time);
  };
  expect(times()).toEqual(["2023-11-14T22:13:25.000Z", "2023-11-14T22:13:25.000Z"]);
  clock.nowMs += 7;
  changeLog(log, settings, settings, clock);
  expect(times()).toEqual(["2023-11-14T22:13:25.007Z", "2023-11-14T22:13:25.007Z"]);
  changeLog(log, settings, { ...settings, time: "unix" }, clock);
  expect(times()).toEqual([1_700_000_005_007, 1_700_000_005_007]);
  expect(child.level).toBe("warn");
});

test("what is below the level is not written, and silent writes nothing", () => {
  const warn = keptLog("warn");
  warn.log.info("no");
  warn.log.warn("yes");
  expect(warn.lines().map(({ msg }) => msg)).toEqual(["yes"]);
  const silent = keptLog("silent");
  silent.log.fatal("no");
  expect(silent.written).toEqual([]);
});

const token = "s3cr3t.T0ken-_~+/x==";

test.each([
  ["a field", { authorization: `Bearer ${token}` }],
  ["a field in other case", { AUTHORIZATION: token }],
  ["nested fields", { request: { deep: { headers: { Authorization: `Token ${token}`, accept: "x" } } } }],
  ["several values", { headers: { authorization: [`Basic ${token}`, token] } }],
  ["raw fields", { rawHeaders: ["Accept", "x", "Authorization", `bearer ${token}`] }],
  ["a quote before it", { "proxy-authorization": `a "quoted" \\ ${token}` }],
  ["cookies", { cookie: `session=${token}`, "set-cookie": [`a=${token}`] }],
  ["a text", { note: `sent BEARER  ${token}, refused` }],
  ["a tab", { note: `Bearer\t${token}` }],
  ["an error's message", { err: new Error(`bad field: Authorization: Bearer ${token}`) }],
  ["an error's properties", { err: Object.assign(new Error("x"), { request: { key: token } }) }],
  ["an error's cause", { err: new Error("x", { cause: new Error(`Basic ${token}`) }) }],
])("a token in %s is not in the line, which stays JSON", (_, facts) => {
  const { log, written, lines } = keptLog();
  log.info(facts, "something");
  log.info(facts, `at Bearer ${token}`);
  expect(lines()).toHaveLength(2);
  expect(written.join("")).not.toContain("s3cr3t");
});

test("an error logged alone keeps its name, code, stack and causes", () => {
  const { log, lines } = keptLog();
  const cause = Object.assign(new Error("connect refused"), { code: "ECONNREFUSED" });
  log.error(new TypeError("fetch failed", { cause }));
  expect(lines()[0]).toMatchObject({
    level: "error",
    msg: "fetch failed",
    err: {
      type: "TypeError",
      stack: expect.stringContaining("log.test.ts"),
      cause: { message: "connect refused", code: "ECONNREFUSED" },
    },
  });
});

test("a line without a credential is left alone", () => {
  const line = '{"auth":"accepted","note":"the bearer of bad news","realm":"basic\\"x","cookies":"none"}\n';
  expect(redactLine('{"auth":"accepted","path":"/v1/cookie"}\n')).toBe('{"auth":"accepted","path":"/v1/cookie"}\n');
  expect(JSON.parse(redactLine(line))).toMatchObject({ auth: "accepted", realm: 'basic"x', cookies: "none" });
});

test.each([
  ["/v2/transactions?access_token=abc", "/v2/transactions"],
  ["/v2/me#access_token=abc", "/v2/me"],
  ["/v2/me;jsessionid=abc?x", "/v2/me"],
  ["/v2/me%3faccess_token=abc", "/v2/me"],
  ["/v2/me%3Bid=abc", "/v2/me"],
  ["/v2/me%253Faccess_token=abc", "/v2/me"],
  ["/v2/me%25252523access_token=abc", "/v2/me"],
  ["http://user:pass@host/v2/me?x=1", "/v2/me"],
  ["http://user:pass@host", ""],
  ["*", "*"],
  ["/a%2fb/../c", "/a%2fb/../c"],
  ['/\u001b[31m\u009b\u007f\n"\u00e9', '/%1B[31m%9B%7F%0A"%E9'],
  ["/caf\u00e9 x", "/caf%E9%20x"],
])("of the target %j, %j is logged", (target, path) => {
  expect(loggedPath(target)).toBe(path);
});

test("a path is cut at 256 characters, whatever it is made of", () => {
  expect(loggedPath(`/${"x".repeat(255)}`)).toHaveLength(256);
  for (const unit of ["x", "\u0000", "/", "http://"]) {
    expect(loggedPath(`/${unit.repeat(100_000)}`)).toHaveLength(259);
  }
});
