// What a command says of a gateway that is away, silent, of another version, or no gateway at all, and of texts that would write
// to a terminal.
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { openAdminClient } from "../../../src/commands/admin/admin-client.ts";
import { withGateway } from "../../../src/commands/admin/connect.ts";
import { readAdminInvocation } from "../../../src/commands/admin/invocation.ts";
import { parseArguments } from "../../../src/commands/arguments.ts";
import { config, policies, requestAnswer, shownRule, status } from "../../admin/fake-plane.ts";
import { useCleanup } from "../../support/cleanup.ts";
import { scratchFolder } from "../../support/scratch.ts";
import { deadPort } from "../../support/unavailable.ts";
import { testIo } from "../test-io.ts";
import { headgate, type MadeUp, ownVersion, startMadeUp } from "./command-stage.ts";

const cleanup = useCleanup();
const same = { ...status, version: ownVersion, caller: { name: "ops", role: "write" } };

/** Answers the status, and one other call. */
const answering =
  (answer: [number, unknown], running: unknown = same): MadeUp =>
  (_method, path) =>
    path === "/api/status" ? [200, running] : answer;

describe("a gateway that cannot be asked", () => {
  test("no socket, a socket on which nobody listens, and one that is not permitted", async () => {
    const folder = scratchFolder(cleanup);
    const path = join(folder, "s");
    expect(await headgate(`status --socket ${path}`)).toMatchObject({ code: 69, out: "" });
    writeFileSync(path, "");
    const other = await headgate(`status --socket ${path}`);
    expect(other).toMatchObject({ code: 69, err: expect.stringContaining("nobody listens on the socket") });
  });

  test("a port on which nobody listens", async () => {
    const folder = scratchFolder(cleanup);
    writeFileSync(join(folder, "token"), "t");
    const { code, err } = await headgate(`rules --url http://127.0.0.1:${deadPort} --token-file ${folder}/token`);
    expect({ code, err }).toEqual({
      code: 69,
      err: `headgate: the gateway at http://127.0.0.1:${deadPort} cannot be asked: nobody listens there\n`,
    });
  });

  test("one that says nothing is waited for, but not for ever", async () => {
    const server = createServer(() => {});
    const path = join(scratchFolder(cleanup), "s");
    server.listen(path);
    await once(server, "listening");
    cleanup(() => server.close());
    const client = await openAdminClient({ kind: "socket", path }, 50);
    await expect(client.status()).rejects.toMatchObject({
      exitCode: 69,
      message: `the gateway at ${path} cannot be asked: nothing was heard for 0.05 s`,
    });
  });

  test("one that breaks off in its answer", async () => {
    const path = join(scratchFolder(cleanup), "s");
    const server = createServer((socket) => {
      socket.once("data", () => socket.end("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"));
    }).listen(path);
    await once(server, "listening");
    cleanup(() => server.close());
    expect(await headgate(`status --socket ${path}`)).toMatchObject({
      code: 69,
      err: `headgate: the gateway at ${path} cannot be asked: it has closed the connection; it may be ending\n`,
    });
  });

  test.each([
    ["no JSON", 200, "<html>", 69, "what answers is not the admin API of a gateway (status 200, no JSON)"],
    ["other JSON", 200, { hello: 1 }, 69, "what answers is not the admin API of a gateway"],
    ["a redirect", 302, {}, 69, "it answers 302"],
    ["another host", 421, {}, 69, "add the host of --url to its admin.hosts"],
    ["too many calls", 503, {}, 69, "it answers 503"],
    ["a wrong token", 401, {}, 77, "the gateway does not accept the token (--token-file "],
    ["too many wrong tokens", 429, {}, 77, "too many wrong tokens came from here"],
    ["a bug", 500, {}, 1, "the gateway answers 500"],
  ])("%s", async (_what, answered, body, code, message) => {
    const { options } = await startMadeUp(cleanup, () => [answered, body]);
    const ran = await headgate(["rules", ...options]);
    expect({ code: ran.code, out: ran.out }).toEqual({ code, out: "" });
    expect(ran.err).toContain(message);
    expect((await headgate(["rules", "--json", ...options])).json).toMatchObject({ error: { code } });
  });
});

describe("a token", () => {
  test("is sent to the gateway alone, and does not cross a network in clear", async () => {
    const seen: unknown[] = [];
    const { options } = await startMadeUp(cleanup, (_method, _path, _body, { headers }) => {
      seen.push(headers.authorization);
      return [200, same];
    });
    expect((await headgate(["status", ...options])).code).toBe(0);
    expect(seen).toEqual(["Bearer made-up-token"]);
    const [, , ...file] = options;
    const ran = await headgate(["status", "--url", "http://198.51.100.1:9464", ...file]);
    expect(ran).toMatchObject({ code: 64, out: "" });
    expect(ran.err).toContain("--url: found http:// beyond this machine, expected https://");
  });
});

describe("a gateway of another version", () => {
  test("is asked all the same, with a warning", async () => {
    const { options } = await startMadeUp(cleanup, answering([200, { rules: [] }], { ...same, version: "9.9.9" }));
    expect(await headgate(["rules", ...options])).toMatchObject({
      code: 0,
      out: "No rule holds.\n",
      err: `warning: the gateway is version 9.9.9, and this command ${ownVersion}\n`,
    });
    const asJson = await headgate(["rules", "--json", ...options]);
    expect(asJson).toMatchObject({ code: 0, err: expect.stringContaining("9.9.9"), json: { rules: [] } });
  });

  test("may answer what this command cannot show", async () => {
    const { options } = await startMadeUp(cleanup, answering([200, { items: [] }], { ...same, version: "9.9.9" }));
    const { code, err } = await headgate(["clients", ...options]);
    expect(code).toBe(69);
    expect(err).toBe(
      `warning: the gateway is version 9.9.9, and this command ${ownVersion}\n` +
        'headgate: the gateway\'s answer to GET /api/clients has no "clients"\n' +
        "  Use --json, or the command of the gateway's version.\n",
    );
    expect((await headgate(["clients", "--json", ...options])).json).toEqual({ items: [] });
  });

  test.each([
    ["clients", "GET /api/clients", { items: [] }, '"clients"'],
    ["clients", "GET /api/clients", null, "object"],
    ["rules", "GET /api/rules", { rules: 5 }, 'list at "rules"'],
    ["rules", "GET /api/rules", { rules: [{ ...shownRule, note: 7, id: {} }] }, 'text at "rules.0.id"'],
    ["config", "GET /api/config", { ...config, restart: "none" }, 'list at "restart"'],
    ["reload", "POST /api/reload", { outcome: "applied" }, '"changed"'],
    ["forgive alice", "DELETE /api/clients/token%3Aalice", { key: "token:alice", policies: {} }, '"network"'],
    ["why alice", "GET /api/clients/token%3Aalice", { policies: [] }, '"key"'],
  ])("of the same version, %s says in a line what %s with %j lacks", async (words, call, body, lacks) => {
    const { options } = await startMadeUp(cleanup, answering([200, body]));
    expect(await headgate([...words.split(" "), ...options])).toEqual({
      ...{ code: 69, out: "", json: undefined },
      err: `headgate: the gateway's answer to ${call} has no ${lacks}\n`,
    });
  });

  test("a failure that no answer explains is a bug, and keeps its stack", async () => {
    const { options } = await startMadeUp(cleanup, answering([200, { rules: [] }]));
    const bug = new TypeError("made up");
    const command = withGateway(connectionOf(options), testIo(), ownVersion, async ({ client }) => {
      await client.rules();
      throw bug;
    });
    await expect(command).rejects.toBe(bug);
  });
});

function connectionOf(options: readonly string[]) {
  const parsed = parseArguments(["rules", ...options]);
  if (!parsed.ok || parsed.invocation.command !== "admin") throw new Error("it asks no gateway");
  const { name, given } = parsed.invocation.args;
  const invocation = readAdminInvocation(name, given);
  if (typeof invocation === "string") throw new Error(invocation);
  return invocation;
}

describe("forgiveness", () => {
  const forgiven = { key: "client:203.0.113.9", policies: [{ policy: "a", units: 2, countedAs: null, gap: null }] };
  const done = { ...forgiven, network: null, untouched: [], shared: null };
  const forgive = async (then: [number, unknown]) => {
    const { options } = await startMadeUp(cleanup, (method, path) => {
      return path === "/api/status" ? [200, same] : method === "DELETE" ? [200, done] : then;
    });
    const ran = await headgate(["forgive", "203.0.113.9", ...options]);
    return { ...ran, connection: options.join(" ") };
  };

  test.each([
    [503, {}, "the gateway at http://127.0.0.1:PORT cannot be asked: it answers 503"],
    [404, { errors: [{ errMsg: "Nothing is counted for this key." }] }, "Nothing is counted for this key."],
    [200, { key: "x" }, "the gateway's answer cannot be read"],
  ])("is said to be done if it cannot be asked afterwards who blocks (%i, %j)", async (status, body, why) => {
    const { code, out, err, connection } = await forgive([status, body]);
    expect({ code, out }).toEqual({
      code: 0,
      out: "client:203.0.113.9 is forgiven.\npolicy a: 2 units forgotten\n",
    });
    const port = /:(\d+) /.exec(connection)?.[1] ?? "";
    const said = why.replace("PORT", port).replace(/\.$/, "");
    expect(err).toBe(
      `warning: whether a rule still blocks it is not known: ${said}. ` +
        `Ask again: headgate why client:203.0.113.9 ${connection}\n`,
    );
  });

  test("names the command that ends a block, at the same gateway", async () => {
    const state = {
      key: "client:203.0.113.9",
      policies: [],
      rules: [{ ...shownRule, action: "block" }],
      isShared: false,
    };
    const { err, connection } = await forgive([200, state]);
    expect(err).toBe(
      `warning: it is still blocked by rule ${shownRule.id}: headgate rules remove ${shownRule.id} ${connection}\n`,
    );
  });
});

test("a gateway that drains is asked, with a warning", async () => {
  const { options } = await startMadeUp(cleanup, answering([200, { rules: [] }], { ...same, state: "draining" }));
  expect(await headgate(["rules", ...options])).toMatchObject({ code: 0, err: "warning: the gateway is draining\n" });
});

describe("a reload on trial", () => {
  const applied = {
    ...{
      outcome: "applied",
      changed: ["policies.a.limit"],
      changes: [{ key: "policies.a.limit", from: "2", to: "1" }],
    },
    ...{ reset: [], loosened: [], restart: [] },
  };

  test("asks for it as the API takes it, and says how to end it", async () => {
    const { options, received } = await startMadeUp(cleanup, answering([200, { ...applied, trial: status.trial }]));
    const { code, out } = await headgate(["reload", "--confirm-within", "5m", "--unless-refused", "5%", ...options]);
    expect(code).toBe(0);
    expect(received.at(-1)).toBe(
      'POST /api/reload {"confirmWithin":"5m","unless":{"refusedShare":0.05},"unconfirmed":"takeBack"}',
    );
    expect(out).toContain("It is on trial: in 5 min, it is taken back.\n");
    expect(out).toContain(
      "taken back as soon as it has refused 20 requests, and more than 5 % of what the old one admits.\n",
    );
    expect(out).toContain(`To keep it:      headgate confirm ${options.join(" ")}\n`);
    expect(out).toContain(`To take it back: headgate take-back ${options.join(" ")}\n`);
    const keep = await headgate(["reload", "--confirm-within", "1h", "--unconfirmed", "keep", ...options]);
    expect(received.at(-1)).toBe('POST /api/reload {"confirmWithin":"1h","unconfirmed":"keep"}');
    expect(keep.out).toContain("It is on trial: in 1 h, it stays.\n");
    await headgate(["reload", ...options]);
    expect(received.at(-1)).toBe("POST /api/reload {}");
  });

  test("says that nothing is on trial if the file has what is in force, and that another reload confirms", async () => {
    const unchanged = { ...applied, outcome: "unchanged", changed: [], changes: [], trial: null };
    const { options } = await startMadeUp(cleanup, answering([200, unchanged]));
    const tried = await headgate(["reload", "--confirm-within", "5m", ...options]);
    expect(tried.code).toBe(1);
    expect(tried.err).toContain("warning: nothing is on trial: the file has what is in force.");
    const plain = await headgate(["reload", ...options]);
    expect([plain.code, plain.err]).toEqual([0, ""]);
    expect(plain.out).toContain("What was on trial is confirmed by this reload.\n");
  });

  test("is confirmed and taken back, or there is none", async () => {
    const { options, received } = await startMadeUp(cleanup, answering([200, { state: "over" }]));
    expect((await headgate(["confirm", ...options])).out).toBe("The configuration stays.\n");
    expect(received.at(-1)).toBe("POST /api/reload/confirm {}");
    const back = await headgate(["take-back", "--json", ...options]);
    expect(back.json).toEqual({ state: "over" });
    expect(received.at(-1)).toBe("POST /api/reload/take-back {}");
    const none = await startMadeUp(
      cleanup,
      answering([409, { message: "Conflict", errors: [{ errMsg: "No trial is on." }] }]),
    );
    expect(await headgate(["confirm", ...none.options])).toMatchObject({
      code: 1,
      out: "",
      err: "headgate: No trial is on.\n",
    });
  });

  test("is in the status", async () => {
    const trial = { since: status.started, ends: "2099-01-01T00:00:00.000Z", unconfirmed: "takeBack" };
    const { options } = await startMadeUp(cleanup, answering([200, {}], { ...same, trial }));
    expect((await headgate(["status", ...options])).out).toMatch(
      /ON TRIAL: without "headgate confirm", it is taken back in .*, at 2099-01-01 00:00:00 UTC\n/,
    );
  });

  describe("that is over is explained by status and config", () => {
    const at = "2020-11-24T12:00:00.000Z";
    const trial = { since: at, ends: at, refusedShare: 0.05, judged: 40, refused: 23, changed: ["policies.a.limit"] };
    const takenBack = { at, outcome: "taken_back", reason: "refused", by: null, trial };
    const change = { changed: ["policies.a"], changes: [], reset: [], loosened: [] };

    test.each([
      [{}, "taken back, because it refused 23 of 40 requests that would have been admitted before"],
      [{ reason: "time" }, "taken back, because nobody had confirmed it in time"],
      [{ outcome: "confirmed", reason: "time" }, "confirmed, because its time was over"],
      [{ reason: "asked", by: "ops" }, "taken back by ops"],
      [{ reason: "asked", by: "socket" }, "taken back by somebody over the socket"],
      [{ reason: "asked" }, "taken back by a program"],
    ])("%o", async (ending, text) => {
      const lastTrial = { ...takenBack, ...ending };
      const running = {
        ...same,
        config: { ...same.config, loadedBy: "trial", isCurrent: false },
        trial: null,
        lastTrial,
      };
      const lastReload = { at, by: "trial", ...change };
      const { options } = await startMadeUp(cleanup, answering([200, { ...config, lastReload, lastTrial }], running));
      const { out } = await headgate(["status", ...options]);
      expect(out).toContain(`the reload on trial (policies.a.limit) was ${text}, at 2020-11-24 12:00:00 UTC\n`);
      const compared = await headgate(["config", "--against", "previous", ...options]);
      expect(compared.out).toContain(
        `The last change was at 2020-11-24 12:00:00 UTC: a reload on trial was ${text}:\n`,
      );
    });

    test("and no more when another reload came after it", async () => {
      const confirmed = { ...takenBack, outcome: "confirmed", reason: "reload" };
      const told = async (loaded: string) => {
        const running = { ...same, config: { ...same.config, loaded }, trial: null, lastTrial: confirmed };
        const { options } = await startMadeUp(cleanup, answering([200, {}], running));
        return (await headgate(["status", ...options])).out;
      };
      expect(await told("2020-11-24T11:59:00.000Z")).toContain(
        "was confirmed by another reload, which was not on trial",
      );
      expect(await told("2020-11-24T12:00:00.001Z")).not.toContain("the reload on trial");
    });
  });
});

describe("texts of others", () => {
  // Of an escape sequence, of eight-bit controls, of the direction of text, and of lines.
  const evil = "\u001b]0;owned\u0007\u009b31m\u202eabc\u2028\r\n\u0000";
  const isRaw = /[^\n\P{Cc}]|[\p{Cf}\p{Zl}\p{Zp}]/u;
  const evilRule = { ...shownRule, note: evil, setBy: evil, token: evil, warnings: [evil], untouchedPolicies: [evil] };
  const evilClient = { ...shownClient(), key: `token:${evil}`, name: evil, policy: evil, seen: evil, method: evil };
  const evilMinutes = { ...same.upstream.lastMinutes, failures: [{ reason: evil, address: evil, count: 1 }] };
  const state = { key: `token:${evil}`, policies: [], rules: [evilRule], isShared: false };
  const answers: Readonly<Record<string, unknown>> = {
    "/api/status": {
      ...same,
      upstream: {
        state: "down",
        reason: evil,
        addresses: [{ address: evil, state: evil, active: 1 }],
        lastMinutes: evilMinutes,
      },
    },
    "/api/rules": { rules: [evilRule] },
    "/api/policies": {
      ...policies,
      policies: policies.policies.map((policy) => ({ ...policy, name: evil, timezone: evil })),
    },
    "/api/config": {
      ...config,
      values: { listen: { host: evil } },
      origins: [{ key: evil, source: "file", place: evil }],
    },
    "/api/config?against=previous": {
      ...config,
      lastReload: {
        at: evil,
        by: evil,
        changed: [evil],
        changes: [{ key: evil, from: evil, to: evil }],
        reset: [evil],
        loosened: [evil],
      },
    },
    "/api/reload": {
      outcome: "applied",
      changed: [evil],
      changes: [{ key: evil, from: evil, to: null }],
      reset: [evil],
      loosened: [evil],
      restart: [evil],
    },
  };
  const madeUp: MadeUp = (method, path) => {
    if (path in answers) return [200, answers[path]];
    if (path.startsWith("/api/clients?"))
      return [200, { clients: [evilClient], refusedSince: evil, isComplete: false, isShared: true }];
    if (path.startsWith("/api/requests/"))
      return [200, { ...requestAnswer, path: evil, method: evil, reason: evil, client: evil, explanation: [evil] }];
    if (path.startsWith("/api/clients/")) {
      return [
        200,
        method === "GET"
          ? state
          : {
              key: evil,
              policies: [{ policy: evil, units: 1, countedAs: null, gap: evil }],
              network: evil,
              untouched: [{ policy: evil, why: evil }],
              shared: false,
            },
      ];
    }
    return [200, evilRule];
  };

  test.each([
    ...["status", "clients", "why alice", "why 236dbc4e-a7bf-435c-bac1-5bf091b10570", "forgive alice", "rules"],
    ...["rules remove x", "reload", "config", "config --against previous"],
  ])("%s prints them as their numbers", async (line) => {
    const { options } = await startMadeUp(cleanup, madeUp);
    const ran = await headgate([...line.split(" "), ...options]);
    expect(ran.code).toBe(0);
    expect(ran.out + ran.err).not.toMatch(isRaw);
    expect(ran.out + ran.err).toContain("\\u{1b}");
    const asJson = await headgate([...line.split(" "), "--json", ...options]);
    expect(asJson.out).not.toMatch(isRaw);
    expect(JSON.stringify(asJson.json)).toContain(JSON.stringify(evil).slice(1, -1));
  });

  test("and those of an error", async () => {
    const { options } = await startMadeUp(
      cleanup,
      answering([409, { message: "", errors: [{ errMsg: evil }, { errMsg: evil }] }]),
    );
    const ran = await headgate(["forgive", "alice", ...options]);
    expect(ran).toMatchObject({ code: 1, out: "" });
    expect(ran.err).not.toMatch(isRaw);
    const asJson = await headgate(["forgive", "alice", "--json", ...options]);
    expect(asJson.out).not.toMatch(isRaw);
    expect(asJson.json).toEqual({ error: { code: 1, message: evil, details: [evil] } });
  });

  function shownClient() {
    const usage = { limit: 1, used: 1, remaining: 0, reset: null, resetSeconds: null };
    return { ...usage, countedAs: null, route: null, last: null, refused: null, actions: [] };
  }
});
