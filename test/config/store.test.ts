// `counters.store` and `counters.redis`: where the store is, what contradicts what, what is warned of, and that no
// password is shown.
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { run, runDiff } from "../../src/commands/check.ts";
import { renderConfigError } from "../../src/config/written.ts";
import { testIo } from "../commands/test-io.ts";
import { Authority } from "../support/certificates.ts";
import { useCleanup } from "../support/cleanup.ts";
import { startTestGateway } from "../support/gateway.ts";
import { scratchFolder } from "../support/scratch.ts";
import { deadUrl } from "../support/unavailable.ts";
import { loadGiven } from "./given.ts";

const cleanup = useCleanup();
const folder = scratchFolder(afterAll);

const withRedis = (redis: string): string => `counters: { store: redis, redis: { ${redis} } }\n`;
const local = "url: redis://127.0.0.1";

function load(yaml: string, env: Record<string, string> = {}) {
  const loaded = loadGiven(folder, { yaml, env });
  if (!loaded.ok) throw new Error(loaded.errors.map(renderConfigError).join("\n"));
  return loaded.settings.counters.redis;
}

function errors(yaml: string): string[] {
  const loaded = loadGiven(folder, { yaml });
  return loaded.ok ? [] : loaded.errors.map(renderConfigError);
}

async function check(yaml: string) {
  writeFileSync(join(folder, "c.yaml"), yaml);
  const io = testIo({ cwd: folder });
  return { code: await run({ file: "c.yaml", overrides: [] }, io), out: io.outText(), err: io.errText() };
}

test("without a store there are no settings of one", () => {
  expect(load("{}")).toBeNull();
  expect(load("counters: { store: memory, redis: { wait: auto, url: null } }")).toBeNull();
});

test("a URL is enough", () => {
  expect(load(withRedis(local))).toEqual({
    connection: {
      servers: { kind: "one", address: { host: "127.0.0.1", port: 6379 } },
      database: 0,
      username: null,
      passwordFile: null,
      tls: null,
    },
    store: {
      prefix: "headgate:",
      waitMs: 50,
      lease: { durationMs: 1000, most: 1000 },
      onFailure: "local",
      replicas: "auto",
      maxKeys: 1_000_000,
    },
  });
});

test.each([
  ["limit: 1, window: 60s", 50],
  ["limit: 1, window: 2500ms", 50],
  ["limit: 1, window: 2499ms", 49],
  ["limit: 1, window: 500ms", 10],
  ["limit: 1, window: 100ms", 10],
  ["limit: 1, per: minute", 50],
  ["concurrency: 1", 50],
])("without wait, it is a 50th of the shortest window at most: %s", (rate, waitMs) => {
  const policies = `policies: [{ name: a, ${rate} }, { name: b, limit: 1, window: 1h }]\n`;
  expect(load(`${withRedis(local)}${policies}`)?.store.waitMs).toBe(waitMs);
  expect(load(`${withRedis(`${local}, wait: auto`)}${policies}`)?.store.waitMs).toBe(waitMs);
  expect(load(`${withRedis(`${local}, wait: 7ms`)}${policies}`)?.store.waitMs).toBe(7);
});

test.each([
  ["redis://store:7000/3", { host: "store", port: 7000 }, 3, false],
  ["rediss://[::1]/", { host: "::1", port: 6379 }, 0, true],
  ["REDISS://10.0.0.1:1/65535", { host: "10.0.0.1", port: 1 }, 65_535, true],
])("%s has a place, a database and perhaps TLS", (url, address, database, isTls) => {
  const { servers, tls, ...connection } = load(withRedis(`url: "${url}"`))?.connection ?? {};
  expect({ servers, isTls: tls !== null, connection }).toMatchObject({
    servers: { kind: "one", address },
    isTls,
    connection: { database },
  });
});

test("sentinels and clusters have ports of their own, and all keys have variables", () => {
  const env = {
    HEADGATE_COUNTERS_STORE: "redis",
    HEADGATE_COUNTERS_REDIS_SENTINELS_NAME: "mymaster",
    HEADGATE_COUNTERS_REDIS_SENTINELS_ADDRESSES: "s1,s2:5000",
    HEADGATE_COUNTERS_REDIS_USERNAME: "gate",
    HEADGATE_COUNTERS_REDIS_PASSWORD_FILE: "p",
    HEADGATE_COUNTERS_REDIS_REPLICAS: "4",
    HEADGATE_COUNTERS_REDIS_LEASE_MOST: "50",
    HEADGATE_COUNTERS_REDIS_TLS_ENABLED: "true",
    HEADGATE_COUNTERS_REDIS_TLS_CA: "ca.pem",
  };
  expect(load("{}", env)).toMatchObject({
    connection: {
      servers: {
        kind: "sentinels",
        name: "mymaster",
        addresses: [
          { host: "s1", port: 26_379 },
          { host: "s2", port: 5000 },
        ],
        user: { username: null, passwordFile: join(folder, "p") },
      },
      username: "gate",
      passwordFile: join(folder, "p"),
      tls: { caFile: join(folder, "ca.pem"), certFile: null, keyFile: null, serverName: null },
    },
    store: { replicas: 4, lease: { durationMs: 1000, most: 50 } },
  });
  const own = load(withRedis("passwordFile: p, sentinels: { name: a, addresses: [b], passwordFile: q }"));
  expect(own?.connection).toMatchObject({
    servers: { user: { username: null, passwordFile: join(folder, "q") } },
    passwordFile: join(folder, "p"),
  });
  expect(load(withRedis('cluster: ["a:1", b]'))?.connection.servers).toEqual({
    kind: "cluster",
    addresses: [
      { host: "a", port: 1 },
      { host: "b", port: 6379 },
    ],
  });
});

describe("what contradicts itself is refused", () => {
  const at = "c.yaml:1:";
  const place =
    "counters.redis.url: found nothing, expected where the store is, since counters.store is redis; set this, or counters.redis.sentinels or cluster";
  const unused = (key: string) =>
    `counters.store: found "memory", expected redis, since counters.redis.${key} is set; set it to redis, or remove counters.redis`;
  test.each([
    ["counters: { store: redis }", [`${at}20: ${place}`]],
    ["counters: { redis: { url: redis://127.0.0.1 } }", [`${at}27: ${unused("url")}`]],
    ["counters: { store: memory, redis: { cluster: [a], wait: 5ms } }", [`${at}20: ${unused("cluster")}`]],
    ["counters: { redis: { replicas: 3 } }", [`${at}32: ${unused("replicas")}`]],
    [
      withRedis(`${local}, cluster: [a], sentinels: { name: a, addresses: [b] }`),
      ["cluster", "sentinels"].map((key) =>
        expect.stringMatching(
          new RegExp(
            `counters\\.redis\\.${key}: found .*, expected none, since counters\\.redis\\.url is set; remove one of the two$`,
          ),
        ),
      ),
    ],
    [
      withRedis("sentinels: { addresses: [a] }"),
      [expect.stringMatching(/sentinels\.name: found nothing, expected the name of the primary, since .* is set$/)],
    ],
    [
      withRedis("sentinels: { passwordFile: p }"),
      [
        expect.stringMatching(
          /sentinels\.name: found nothing, expected the name of the primary, since counters\.redis\.sentinels\.passwordFile is set$/,
        ),
      ],
    ],
    [
      withRedis("sentinels: { name: a, addresses: [b], username: u }"),
      [
        expect.stringMatching(
          /sentinels\.passwordFile: found nothing, expected the path of a file, since counters\.redis\.sentinels\.username is set; /,
        ),
      ],
    ],
    [
      withRedis(`${local}, sentinels: { passwordFile: p }`),
      [
        expect.stringMatching(/sentinels: found a mapping, expected none, since counters\.redis\.url is set/),
        expect.anything(),
      ],
    ],
    [
      withRedis("sentinels: { name: a }"),
      [expect.stringMatching(/sentinels\.addresses: found nothing, expected at least one address, since /)],
    ],
    [
      withRedis("url: redis://a, username: gate"),
      [
        expect.stringMatching(
          /passwordFile: found nothing, expected the path of a file, since counters\.redis\.username is set; name it, or remove counters\.redis\.username$/,
        ),
      ],
    ],
    [
      withRedis("url: rediss://a, tls: { cert: c.pem }"),
      [
        expect.stringMatching(
          /redis\.tls\.key: found nothing, expected the path of a file, since counters\.redis\.tls\.cert/,
        ),
      ],
    ],
    [
      withRedis("url: redis://a, tls: { ca: c.pem }"),
      [
        expect.stringMatching(
          /redis\.tls\.ca: found "c\.pem", expected none, since counters\.redis\.url is not rediss; remove it, or begin counters\.redis\.url with rediss:\/\/$/,
        ),
      ],
    ],
    [
      withRedis("cluster: [a], tls: { serverName: b }"),
      [
        expect.stringMatching(
          /tls\.serverName: found "b", expected none, since counters\.redis\.tls\.enabled is false; remove it, or set counters\.redis\.tls\.enabled to true$/,
        ),
      ],
    ],
    [
      withRedis("url: rediss://a, tls: { enabled: true }"),
      [
        expect.stringMatching(
          /tls\.enabled: found true, expected false, since the scheme of counters\.redis\.url says it; remove it, and begin the URL with rediss:\/\/ for TLS$/,
        ),
      ],
    ],
    [withRedis("url: redis://a, prefix: '{a}'"), [expect.stringMatching(/prefix: found "\{a\}", expected 1 to 64 /)]],
    [
      withRedis("url: redis://a/65536x"),
      [expect.stringMatching(/url: found "redis:\/\/a\/65536x", expected a redis:/)],
    ],
    [withRedis("url: redis://a, wait: 2s"), [expect.stringMatching(/wait: found "2s", expected a duration from 1ms /)]],
    [withRedis("host: a"), [expect.stringMatching(/counters\.redis\.host: unknown key; did you mean /)]],
  ])("%s", (yaml, lines) => {
    expect(errors(yaml)).toEqual(lines);
  });
});

test("no password is accepted outside of its file, or shown", () => {
  for (const given of [
    "url: redis://:hunter2@store",
    'url: "redis://user:hunter2@store:6379/0"',
    "url: redis://store?password=hunter2",
    "cluster: ['user:hunter2@store']",
  ]) {
    const [error, ...others] = errors(withRedis(given));
    expect(others).toEqual([]);
    expect(error).not.toContain("hunter2");
    if (given.startsWith("url")) expect(error).toContain("username and passwordFile are keys of their own");
  }
  const [unknown] = errors(withRedis(`${local}, password: hunter2`));
  expect(unknown).toMatch(/counters\.redis\.password: unknown key; did you mean "counters\.redis\.passwordFile"\?$/);
});

describe("check", () => {
  test("looks at the files, and shows nothing of them", async () => {
    const { certFile } = new Authority(cleanup).issue({ validDays: [-1, 30] });
    writeFileSync(join(folder, "password"), "hunter2\n");
    writeFileSync(join(folder, "two"), "hunter2\nhunter3\n");
    writeFileSync(join(folder, "empty"), "\n");
    const tls = `tls: { ca: ${certFile} }`;
    const good = await check(withRedis(`url: rediss://127.0.0.1, passwordFile: password, ${tls}`));
    expect(good).toMatchObject({ code: 0, err: "" });
    expect(good.out).toContain("passwordFile: password");
    expect(good.out).not.toContain("hunter2");
    const errorOf = async (redis: string) => {
      const { code, err } = await check(withRedis(`${local}, ${redis}`));
      expect(code).toBe(78);
      return err;
    };
    const key = "c.yaml:1:74: counters.redis.passwordFile:";
    expect(await errorOf("passwordFile: nowhere")).toBe(`${key} nowhere: cannot be read: no such file\n`);
    expect(await errorOf("passwordFile: two")).toBe(
      `${key} two: found several lines, expected one line with the password\n`,
    );
    expect(await errorOf("passwordFile: empty")).toBe(
      `${key} empty: found an empty file, expected one line with the password\n`,
    );
    const { err } = await check(withRedis("url: rediss://a, tls: { ca: password }"));
    expect(err).toMatch(/counters\.redis\.tls\.ca: password: found no certificate, expected one or more in PEM\n$/);
  });

  const plain = (hosts: string) =>
    `warning: counters.redis has no TLS to ${hosts}: passwords and clients' addresses are sent in plain text\n`;
  const warned: readonly [yaml: string, warning: string][] = [
    [withRedis("url: redis://127.0.0.2"), ""],
    [withRedis('url: "redis://[::1]:1"'), ""],
    [withRedis("url: rediss://store"), ""],
    [withRedis("url: redis://store"), plain("store")],
    [withRedis('cluster: [localhost, "a:1", "a:2", b]'), plain("a and b")],
    [withRedis("cluster: [a], tls: { enabled: true }"), ""],
    [
      withRedis(`${local}, onFailure: open`),
      "warning: counters.redis.onFailure is open: while the store is away, nobody is limited\n",
    ],
    [
      withRedis(`${local}, wait: 200ms`),
      "warning: counters.redis.wait is 200ms: while the store is slow, each request may take so much longer\n",
    ],
    [
      `${withRedis(local)}policies: [{ name: a, limit: 9, window: 100ms }, { name: b, limit: 1000, window: 100ms }]\n`,
      "warning: policy a: its window of 100ms is short beside counters.redis.wait (10ms): up to 13 % less than the limit is admitted\n",
    ],
    [
      `${withRedis(local)}policies: [{ name: a, limit: 9, window: 300ms }, { name: b, limit: 1000, window: 200ms, charge: { statuses: [401] } }]\n`,
      "warning: policy b: its window of 200ms is short beside counters.redis.wait (10ms): up to 6 % less than the limit is admitted\n",
    ],
    [`${withRedis(local)}policies: [{ name: a, limit: 9, window: 300ms }]\n`, ""],
  ];
  test.each(warned)("%s warns of what an operator should know", async (yaml, warning) => {
    expect(await check(yaml)).toMatchObject({ code: 0, err: warning });
  });

  test("the start logs the warnings, too", async () => {
    const redis = load(withRedis("url: redis://127.0.0.1:1, onFailure: open"));
    const { close, logLines } = await startTestGateway({
      upstreamUrl: deadUrl,
      overrides: { counters: { redis } },
    });
    await close();
    expect(logLines.filter(({ msg }) => msg === "configuration warning")).toMatchObject([
      { level: "warn", detail: "counters.redis.onFailure is open: while the store is away, nobody is limited" },
    ]);
  });

  test("each warning has its row in docs/shared-counters.md, and no other", () => {
    const page = readFileSync(new URL("../../docs/shared-counters.md", import.meta.url), "utf8");
    const [, section = ""] = /^### Warnings$(.*?)^##/ms.exec(page) ?? [];
    const rows = [...section.matchAll(/^\| `(.+?)` \|/gm)].map(([, text = ""]) => text.replaceAll(/[.()]/g, "\\$&"));
    const patterns = rows.map((row) => new RegExp(row.replaceAll("…", ".+")));
    const texts = warned.flatMap(([, warning]) => (warning === "" ? [] : [warning]));
    expect(patterns.map((pattern) => texts.filter((text) => pattern.test(text)).length > 0)).toEqual(
      rows.map(() => true),
    );
    expect(texts.map((text) => patterns.filter((pattern) => pattern.test(text)).length)).toEqual(texts.map(() => 1));
  });

  test("--diff says which keys need a restart", async () => {
    writeFileSync(join(folder, "old.yaml"), withRedis("url: redis://127.0.0.1/1, wait: 5ms"));
    writeFileSync(join(folder, "new.yaml"), withRedis("url: rediss://127.0.0.1/1, wait: 6ms, lease: { most: 5 }"));
    const io = testIo({ cwd: folder });
    expect(await runDiff({ files: ["old.yaml", "new.yaml"], overrides: [] }, io)).toBe(0);
    expect(io.outText().split("\n")).toEqual([
      "counters.redis.url: redis://127.0.0.1/1 → rediss://127.0.0.1/1 (needs a restart)",
      "counters.redis.wait: 5ms → 6ms (needs a restart)",
      "counters.redis.lease.most: 1000 → 5 (needs a restart)",
      "",
    ]);
  });
});
