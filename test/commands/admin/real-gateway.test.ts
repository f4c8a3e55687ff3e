// Each command against the real gateway: what it says, what it does, and that its JSON fits its schema.
import { afterEach, beforeEach, describe, expect, type TestContext, test, vi } from "vitest";
import * as schemas from "../../../src/admin/schemas.ts";
import { Why } from "../../../src/commands/admin/printed-schemas.ts";
import { systemClock } from "../../../src/core/clock.ts";
import { Authority } from "../../support/certificates.ts";
import { cleanupOf } from "../../support/cleanup.ts";
import { FakeClock } from "../../support/clock.ts";
import { valuesOf } from "../../support/raw-client.ts";
import { RawConnection } from "../../support/raw-connection.ts";
import { holdTimers } from "../../support/timers.ts";
import { type CommandStage, expectFit, headgate, stageCommands } from "./command-stage.ts";

const yaml = `
auth: { mode: tokens, tokensFile: FOLDER/tokens.txt }
policies:
  - { name: small, limit: 3, window: 1h, who: others }
  - { name: watched, limit: 1, window: 1h, mode: shadow, who: others }
  - { name: by-partner, key: [subject], limit: 2, per: day, who: verified }
`;

const stage = (context: TestContext): Promise<CommandStage> => stageCommands(cleanupOf(context), yaml);

/** For the gateway and for the command: what is printed is a whole hour, however busy the machine is. */
function useHeldTime(): void {
  beforeEach(() => {
    const { monotonicMs, wallMs, wallMsAt } = new FakeClock();
    vi.spyOn(systemClock, "monotonicMs").mockImplementation(monotonicMs);
    vi.spyOn(systemClock, "wallMs").mockImplementation(wallMs);
    vi.spyOn(systemClock, "wallMsAt").mockImplementation(wallMsAt);
  });
  afterEach(() => void vi.restoreAllMocks());
}

describe("status", () => {
  test("says what runs", async (context) => {
    const { headgate: run } = await stage(context);
    const { code, out, err } = await run("status");
    expect({ code, err }).toEqual({ code: 0, err: "" });
    expect(out).toMatch(/^gateway {8}ready, started \d+ s ago, version 0\.0\.0-test, Node /);
    expect(out).toContain("1 of 1 serving, 0 restarts");
    expect(out).toContain("tokens         2 listed, 0 of them ending in 14 days\n");
    const { json } = await run("status --json");
    expectFit(schemas.Status, json);
  });

  test("says what is wrong with the configuration that was read last", async (context) => {
    const { headgate: run, write } = await stage(context);
    write("maxBodyBytes: 0\n");
    const { code, out, err } = await run("reload");
    expect({ code, out }).toEqual({ code: 1, out: "" });
    expect(err).toMatch(
      /^headgate: nothing is reloaded, the configuration from before holds\n {2}.*maxBodyBytes: found 0/,
    );
    const { json } = await run("reload --json");
    expect(json).toEqual({
      error: { code: 1, message: expect.any(String), details: [expect.stringContaining("maxBodyBytes")] },
    });
    const status = await run("status");
    expect(status.out).toContain("NOT what was read last");
    expect(status.out).toContain("maxBodyBytes: found 0");
  });
});

describe("clients and why", () => {
  useHeldTime();

  test("the list has who has used most, and who was refused", async (context) => {
    const { headgate: run, refusedOf } = await stage(context);
    await refusedOf(5);
    const { out, code } = await run("clients --policy small --sort refused");
    expect(code).toBe(0);
    expect(out.split("\n").slice(0, 2)).toEqual([
      "KEY               POLICY  USED  MORE IN  THROTTLED",
      "client:127.0.0.1  small    3/3      1 h          2",
    ]);
    expectFit(schemas.ClientList, (await run("clients --json --limit 1")).json);
    expect((await run("clients --search 203.")).out).toMatch(/^No key is counted\.\n/);
    const unknown = await run("clients --policy smal");
    expect(unknown).toMatchObject({ code: 1, out: "" });
    expect(unknown.err).toContain("expected small, watched or by-partner");
  });

  test("why says which policy, how much of what, until when, where its limit is, and what to do", async (context) => {
    const { headgate: run, refusedOf, socket } = await stage(context);
    const [id = ""] = await refusedOf(5);
    const { out, code, err } = await run("why 127.0.0.1");
    expect({ code, err }).toEqual({ code: 0, err: "" });
    expect(out).toContain("127.0.0.1 is throttled by policy small.\n");
    expect(out).toMatch(/Policy small: 3 of 3 in any 1h are used\. The next one is free in 1 h, at .* UTC\.\n/);
    expect(out).toMatch(/The limit is policies\.small\.limit in the configuration, at .*headgate\.yaml:6:27\.\n/);
    expect(out).toContain("Policy watched is used up too, and refuses nothing: it is a shadow.\n");
    expect(out).toContain(`\n  headgate forgive 127.0.0.1 --socket ${socket}\n`);
    expect(out).toContain(`\n  headgate limit 127.0.0.1 --policy small --limit 6 --for 1h --socket ${socket}\n`);
    expect(out).toContain(`\n  headgate exempt 127.0.0.1 --policy small --for 1h --socket ${socket}\n`);

    expect(out).toMatch(/\nIts last refusals and failures:\nAT .*\n/);
    expect(out).toMatch(/ UTC {2}429 throttled {6}small {2}GET \/v2\/x {2}[0-9a-f-]{36}\n/);
    expect(out).toMatch(/ UTC {2}401 invalid_token {9}GET \/v2\/x {2}[0-9a-f-]{36}\n/);

    const request = await run(`why ${id}`);
    expect(request.out).toMatch(/^\d+ s ago, at .* UTC: GET \/v2\/x from 127\.0\.0\.1 got 401 \(invalid_token\)\./);
    expect(request.out).toContain("Now 127.0.0.1 is throttled by policy small.\n");
    for (const each of [await run("why 127.0.0.1 --json"), await run(`why ${id} --json`)]) {
      expectFit(Why, each.json);
      expect(each.json).toMatchObject({ state: "throttled", settings: [{ key: "policies.small.limit" }] });
    }
  });

  test("a path that a client has made long is cut in the list, and whole in why of its id", async (context) => {
    const { headgate: run, gateway } = await stage(context);
    const path = `/v2/${"x".repeat(200)}`;
    const response = await fetch(`${gateway.url}${path}`);
    expect(response.status).toBe(401);
    expect((await run("why 127.0.0.1")).out).toMatch(/ GET \/v2\/x{51}… {2}[0-9a-f-]{36}\n/);
    expect((await run(["why", response.headers.get("x-request-id") ?? ""])).out).toContain(`GET ${path} from`);
  });

  test("a request of which nothing could be read", async (context) => {
    const { headgate: run, gateway } = await stage(context);
    const client = new RawConnection(gateway.traffic.port);
    cleanupOf(context)(() => client.destroy());
    const [id = ""] = valuesOf((await client.ask("nonsense\r\n\r\n")).rawHeaders, "X-Request-Id");
    const { out } = await run(`why ${id}`);
    expect(out).toMatch(/ UTC: a request from 127\.0\.0\.1 got 400 \(malformed\)\.\n/);
  });

  test("a request by the id that its client chose, also one that came twice, or is an address", async (context) => {
    const { headgate: run, gateway } = await stage(context);
    const client = new RawConnection(gateway.traffic.port);
    cleanupOf(context)(() => client.destroy());
    const ids = ["order/7?%41", "203.0.113.9", "alice", "order/7?%41"];
    for (const [i, id] of ids.entries()) {
      client.write(`GET /none/${i} HTTP/1.1\r\nHost: a\r\nX-Request-Id: ${id}\r\n\r\n`);
      expect(valuesOf((await client.read()).rawHeaders, "X-Request-Id")).toEqual([id]);
    }
    for (const asked of ["order/7?%41", "request:order/7?%41"]) {
      const { out } = await run(`why ${asked}`);
      expect(out).toContain(
        "GET /none/3 from 127.0.0.1 got 404 (no_route). The client chose its X-Request-Id, order/7?%41,",
      );
      expect(out).toContain("order/7?%41, and refusals before it had the same.\n");
    }
    for (const [i, asked] of [
      [1, "request:203.0.113.9"],
      [2, "request:alice"],
    ] as const) {
      expect((await run(`why ${asked}`)).out).toContain(
        `GET /none/${i} from 127.0.0.1 got 404 (no_route). The client chose`,
      );
    }
    // A known token is not hidden by it.
    expect((await run("why alice --json")).json).toMatchObject({ request: null, asked: "alice" });
    const { json } = await run("why request:alice --json");
    expect(json).toMatchObject({
      request: { requestId: "alice", isRepeated: false, id: expect.stringMatching(/^[0-9a-f-]{36}$/) },
    });
    expect((await run(`why ${(json as { request: { id: string } }).request.id}`)).out).toContain("GET /none/2 ");
  });

  test("a request that its policy refused, and one that a rule blocked", async (context) => {
    const { headgate: run, refusedOf } = await stage(context);
    const [id] = await refusedOf(3, "alices-token");
    const throttled = await run(`why ${id}`);
    expect(throttled.out).toMatch(/ GET \/v2\/x from 127\.0\.0\.1 got 429 \(throttled\)\.\n/);
    expect(throttled.out).toMatch(/Policy by-partner refused it: all 2 of .* were used\. The next one is free at /);
    expect(throttled.out).toContain("The limit is policies.by-partner.limit");
    await run("block 127.0.0.1 --for 1h --force --id mine");
    const [blocked] = await refusedOf(1);
    const { out, json } = await run(`why ${blocked} --json`);
    expectFit(Why, json);
    expect(out).toContain("Rule mine blocked it.");
    expect(json).toMatchObject({
      state: "blocked",
      request: { reason: "blocked", rule: "mine" },
      rules: [{ id: "mine" }],
      commands: [{ command: expect.stringContaining("headgate rules remove mine ") }],
    });
  });

  test("a network that is blocked is known by its refusals", async (context) => {
    const { headgate: run, refusedOf } = await stage(context);
    expect(await refusedOf(5)).toHaveLength(5);
    const { out, code } = await run("why 127.0.0.0/8");
    expect([code, out]).toEqual([
      0,
      expect.stringMatching(/^127\.0\.0\.0\/8 has no counts\.\n\nIts last refusals and failures:\n/),
    ]);
  });

  test("a token is named without its kind, and what it suggests fits how the policy counts", async (context) => {
    const { headgate: run, refusedOf } = await stage(context);
    await refusedOf(3, "alices-token");
    const { out } = await run("why alice");
    expect(out).toContain("alice is throttled by policy by-partner.\n");
    expect(out).toMatch(/Policy by-partner: 2 of 2 in a day \(.*\) are used\./);
    const [, command = ""] = /\n {2}headgate (limit alice .*) --socket/.exec(out) ?? [];
    expect(command).toBe("limit alice --policy by-partner --limit 4 --for 1h");
    expect((await run(command)).out).toContain("gives subject alice a limit of 4 in policy by-partner.");
    expect(await refusedOf(1, "alices-token")).toEqual([]);
  });

  test.for([
    ["why carol", "nothing is known of carol", "Tried: token:carol."],
    ["why carol", "nothing is known of carol", "No refusal that is remembered has it as its X-Request-Id."],
    ["why request:carol", "No refusal with this id is remembered", "Tried: request carol."],
    [
      "why request:order-7",
      "No refusal with this id is remembered",
      "Only requests that were refused, or that the upstream failed, are remembered.",
    ],
    ["why 236dbc4e-a7bf-435c-bac1-5bf091b10570", "No refusal with this id is remembered", "Tried: request 236dbc4e"],
    [
      "why 00000000000000000000000000000000",
      "No refusal with this id is remembered",
      "key:00000000000000000000000000000000",
    ],
    ["why 10.0.0.0/8", "nothing is known of 10.0.0.0/8", "ask about an address"],
    ["forgive carol", "nothing is counted for token:carol", "policy by-partner: no listed token has this name"],
    ["rules remove none", "there is no such rule", ""],
  ])("%s says what was tried", async ([line = "", message = "", detail], context) => {
    const { headgate: run } = await stage(context);
    const { code, out, err } = await run(line);
    expect({ code, out }).toEqual({ code: 1, out: "" });
    expect(err).toContain(`headgate: ${message}`);
    expect(err).toContain(detail);
    const { json, err: other } = await run(`${line} --json`);
    expect(json).toEqual({ error: { code: 1, message: expect.stringContaining(message), details: expect.anything() } });
    expect(other).toBe("");
  });
});

describe("forgive", () => {
  test("lets a client in again", async (context) => {
    const { headgate: run, refusedOf, socket } = await stage(context);
    await refusedOf(3, "alices-token");
    const { out, json } = await run("forgive alice --json");
    expectFit(schemas.Forgiven, json);
    expect(out).toContain('"units": 2');
    expect(await refusedOf(2, "alices-token")).toEqual([]);
    expect((await run("forgive alice")).out).toContain("policy by-partner: 2 units forgotten\n");
    expect((await run("forgive 203.0.113.9")).out).toContain("policy small: 0 units forgotten\n");
    await run("block 203.0.113.9 --for 1h");
    expect((await run("forgive 203.0.113.9")).err).toBe(
      `warning: it is still blocked by rule block-203.0.113.9: headgate rules remove block-203.0.113.9 --socket ${socket}\n`,
    );
  });
});

describe("rules", () => {
  useHeldTime();

  test("a block holds, is listed and explained, and ends by its command", async (context) => {
    const { headgate: run, refusedOf } = await stage(context);
    const refused = await run("block 127.0.0.1 --for 1h");
    // Over the socket nobody has an address that could be covered.
    expect(refused.code).toBe(0);
    expect(refused.out).toMatch(/^Rule block-127\.0\.0\.1 blocks 127\.0\.0\.1\. It ends in 1 h, at .* UTC\.\n/);
    expect(refused.err).toMatch(/^warning: a restart before .* ends it/);
    expect((await refusedOf(2)).length).toBe(2);
    const { out } = await run("rules");
    expect(out.split("\n")[1]).toMatch(/^block-127\.0\.0\.1 {2}block {3}127\.0\.0\.1 +1 h {2}socket$/);
    expectFit(schemas.RuleList, (await run("rules --json")).json);
    const [, command = ""] = /To end it before: headgate (.*) --socket/.exec(refused.out) ?? [];
    const removed = await run(`${command} --json`);
    expectFit(schemas.Rule, removed.json);
    expect(await run("rules")).toMatchObject({ code: 0, out: "No rule holds.\n" });
  });

  test("the same command again sets a new end; another rule with the id is not replaced", async (context) => {
    const { headgate: run } = await stage(context);
    await run("block 203.0.113.0/24 --for 1h --note first");
    const again = await run("block 203.0.113.99/24 --for 2h");
    expect(again.out).toMatch(/^Replaced Rule block-203\.0\.113\.0_24 blocks 203\.0\.113\.0\/24\. .*: first\n/);
    expect((await run("rules --json")).json).toMatchObject({ rules: [{ for: "2h" }] });
    const other = await run("exempt 203.0.113.7 --for 1h --id block-203.0.113.0_24");
    expect(other).toMatchObject({ code: 1, out: "" });
    expect(other.err).toContain("there is another rule with the id block-203.0.113.0_24");
    expect((await run("why 203.0.113.0/24 --json")).json).toMatchObject({ state: "blocked", client: { policies: [] } });
  });

  test("an IPv6 address stands for its network, which is one client", async (context) => {
    const { headgate: run } = await stage(context);
    const { code, out } = await run("block 2001:db8::7 --for 1h");
    expect(code).toBe(0);
    expect(out).toMatch(
      /^2001:db8::7 is one client with all of 2001:db8::\/64\.\nRule block-2001_db8___64 blocks 2001:db8::\/64\./,
    );
    expect((await run("why 2001:db8::99")).out).toContain("2001:db8::/64 is blocked by rule block-2001");
    expect((await run("block 2001:db8::8 --for 2h")).out).toContain("\nReplaced Rule block-2001");
    expect((await run("forgive 2001:db8::9")).out).toContain("client:2001:db8::/64 is forgiven.\n");
  });

  test("a token that is blocked is told from the address of its request", async (context) => {
    const { headgate: run, refusedOf } = await stage(context);
    await run("block alice --for 1h");
    const [id] = await refusedOf(1, "alices-token");
    const { out } = await run(`why ${id}`);
    expect(out).toContain("Rule block-token-alice blocked it.\n");
    expect(out).toContain("Now token:alice is blocked by rule block-token-alice.\n");
  });

  test("exempt and limit are of a policy, and the answer fits the schema", async (context) => {
    const { headgate: run } = await stage(context);
    for (const line of [
      "exempt alice --policy by-partner --for 1h",
      "limit 10.0.0.1 --policy small --limit 9 --for 1h",
    ]) {
      const { code, json } = await run(`${line} --json`);
      expect(code).toBe(0);
      expectFit(schemas.Rule, json);
    }
    const several = await run("limit 10.0.0.1 --limit 9 --for 1h");
    expect(several).toMatchObject({
      code: 1,
      err: expect.stringContaining("--policy: one of small, watched, by-partner is expected"),
    });
    const nobody = await run("block carol --for 1h");
    expect(nobody.err).toContain("warning: no token of this name is listed\n");
  });

  test("a rule that covers its writer needs --force", async (context) => {
    const { gateway, writeFile } = await stage(context);
    const over = `--url ${gateway.adminUrl} --token-file ${writeFile}`;
    const refused = await headgate(`block 127.0.0.1 --for 1h ${over}`);
    expect(refused).toMatchObject({ code: 1, out: "" });
    expect(refused.err).toContain("the rule covers 127.0.0.1, which is your own address; add --force if that is meant");
    expect((await headgate(`block 127.0.0.1 --for 1h --force ${over}`)).code).toBe(0);
  });
});

describe("reload, config and drain", () => {
  test("a reload says what has changed, and config says it later", async (context) => {
    const { headgate: run, write } = await stage(context);
    expect((await run("config --against previous")).out).toBe("No reload has changed anything since the start.\n");
    write(yaml.replace("limit: 3", "limit: 4"));
    const { out, code } = await run("reload");
    expect({ out, code }).toEqual({ code: 0, out: "Reloaded.\n  policies.small.limit: 3 → 4\n" });
    expect((await run("config --against previous")).out).toMatch(
      /^The last change was at .* UTC \(call by socket\):\n {2}policies\.small\.limit: 3 → 4\n$/,
    );
    const again = await run("reload --json");
    expectFit(schemas.ReloadAnswer, again.json);
    const config = await run("config");
    expect(config.out).toContain("\npolicies: [ { name: small, limit: 4, window: 1h, who: others }, ");
    expect(config.out).toMatch(/\n# policies\.small\.limit +\S+headgate\.yaml:6:27\n/);
    expectFit(schemas.Config, (await run("config --json")).json);
  });

  test("while a gateway drains, it is asked with a warning", async (context) => {
    const cleanup = cleanupOf(context);
    holdTimers(cleanup);
    const { headgate: run, gateway } = await stageCommands(cleanup, `${yaml}drain: { delay: 5m }\n`);
    cleanup(() => void vi.advanceTimersByTime(300_000));
    expect((await run("drain")).out).toContain("New connections are accepted for 5 min.\n");
    await gateway.drainBegan;
    const { code, out, err } = await run("status");
    expect({ code, err }).toEqual({ code: 0, err: "warning: the gateway is draining\n" });
    expect(out).toMatch(/^gateway {8}draining, started /);
    const reload = await run("reload");
    expect(reload).toMatchObject({
      code: 1,
      err: expect.stringContaining("the gateway is draining, so nothing is reloaded"),
    });
  });

  test("a drain ends the gateway, after its answer", async (context) => {
    const { headgate: run, gateway } = await stage(context);
    const { out, code } = await run("drain");
    expect({ out, code }).toEqual({
      code: 0,
      out: "The gateway drains, and ends.\nRequests in progress may take 1 s.\n",
    });
    await gateway.drainBegan;
    await gateway.drain();
    const after = await run("status");
    expect(after).toMatchObject({
      code: 69,
      out: "",
      err: expect.stringContaining("there is no such socket; is the gateway running"),
    });
    expect(await run("status --json")).toMatchObject({ code: 69, err: "", json: { error: { code: 69 } } });
  });
});

describe("over a URL", () => {
  test("a read token reads, and what writes says which token is needed", async (context) => {
    const { gateway, readFile } = await stage(context);
    const over = `--url ${gateway.adminUrl} --token-file ${readFile}`;
    for (const line of ["status", "clients", "why 10.0.0.1", "rules", "config"]) {
      expect(await headgate(`${line} ${over}`)).toMatchObject({ code: 0, err: "" });
    }
    const writes = ["forgive 10.0.0.1", "block 10.0.0.1 --for 1h", "exempt 10.0.0.1 --for 1h", "reload", "drain"];
    for (const line of [...writes, "limit 10.0.0.1 --policy small --limit 9 --for 1h", "rules remove x"]) {
      const { code, out, err } = await headgate(`${line} ${over}`);
      expect({ line, code, out }).toEqual({ line, code: 77, out: "" });
      expect(err).toContain(
        `a token that may write is needed (--token-file ${readFile}): "headgate token --admin write"`,
      );
      const { json } = await headgate(`${line} --json ${over}`);
      expect(json).toMatchObject({ error: { code: 77, details: ["This token may read and not write."] } });
    }
  });

  test("a wrong token is 77", async (context) => {
    const { gateway, folder } = await stage(context);
    const ran = await headgate(`status --url ${gateway.adminUrl} --token-file tokenless`, { cwd: folder });
    expect(ran).toMatchObject({
      code: 78,
      err: expect.stringContaining("--token-file: tokenless: cannot be read: no such file"),
    });
    const wrong = await headgate(`status --url ${gateway.adminUrl} --token-file tokens.txt`, { cwd: folder });
    expect(wrong).toMatchObject({ code: 78, err: expect.stringContaining("expected a token alone") });
  });

  test("with TLS, the certificate must be trusted", async (context) => {
    const authority = new Authority(cleanupOf(context));
    const { certFile, keyFile } = authority.issue();
    const tls = `, tls: { cert: ${certFile}, key: ${keyFile} }`;
    const { gateway, writeFile } = await stageCommands(cleanupOf(context), yaml, tls);
    const over = `--url https://localhost:${gateway.admin.port} --token-file ${writeFile}`;
    vi.stubEnv("NODE_TLS_REJECT_UNAUTHORIZED", "0");
    const untrusted = await headgate(`status ${over}`);
    vi.unstubAllEnvs();
    expect(untrusted).toMatchObject({ code: 69, out: "" });
    expect(untrusted.err).toMatch(/its certificate is not trusted \([A-Z_]+\); name its authority with --ca/);
    const trusted = await headgate(`status ${over} --ca ${authority.certFile}`);
    expect(trusted).toMatchObject({ code: 0, err: "" });
    expect((await headgate(`status ${over.replace("localhost", "127.0.0.1")} --ca ${authority.certFile}`)).code).toBe(
      0,
    );
  });
});

test("the configuration says where the gateway is, also if it has errors elsewhere", async (context) => {
  const { socket, folder, write } = await stage(context);
  expect(await headgate("status --config headgate.yaml", { cwd: folder })).toMatchObject({ code: 0, err: "" });
  expect(await headgate("status", { env: { HEADGATE_CONFIG: `${folder}/headgate.yaml` } })).toMatchObject({ code: 0 });
  expect(await headgate("status", { env: { HEADGATE_ADMIN_SOCKET: socket } })).toMatchObject({ code: 0 });
  write("maxBodyBytes: 0\n");
  expect(await headgate("status --config headgate.yaml", { cwd: folder })).toMatchObject({ code: 0, err: "" });
  const none = await headgate("status");
  expect(none).toMatchObject({ code: 64, out: "" });
  expect(none.err).toContain(
    "has no admin.socket; give --socket, or --url and --token-file, or set admin.socket (HEADGATE_ADMIN_SOCKET)",
  );
});
