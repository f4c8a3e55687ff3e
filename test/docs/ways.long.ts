// What pages say that one gets with a configuration, with that configuration as it stands there: each row has the sentence or
// the heading, the requests and their answers.
import { writeFileSync } from "node:fs";
import { request } from "node:http";
import { join } from "node:path";
import { expect, test } from "vitest";
import { digestOf } from "../auth/digest.ts";
import { useCleanup } from "../support/cleanup.ts";
import { startFromFile } from "../support/gateway-from-file.ts";
import { RawConnection } from "../support/raw-connection.ts";
import { scratchFolder } from "../support/scratch.ts";
import { startRawUpstream, startUpstream } from "../support/upstream.ts";
import { read } from "./markdown.ts";

const cleanup = useCleanup();

/** The first YAML behind a heading or a sentence of a page, which must be there. */
function yamlBehind(path: string, text: string): string {
  const [, behind] = read(path).split(text);
  const [, yaml] = /^```yaml\n(.*?)^```/ms.exec(behind ?? "") ?? [];
  return yaml ?? expect.fail(`no example behind "${text}" in ${path}`);
}

interface Answer {
  readonly status: number;
  readonly fields: ReadonlyMap<string, string>;
  /** What the upstream got; null if it got nothing. */
  readonly arrived: { readonly target: string; readonly fields: ReadonlyMap<string, string> } | null;
}

type Ask = (line: string, fields?: Readonly<Record<string, string>>, token?: string | null) => Promise<Answer>;

const mapOf = (rawHeaders: readonly string[]): ReadonlyMap<string, string> =>
  new Map(rawHeaders.flatMap((name, i) => (i % 2 === 0 ? [[name.toLowerCase(), rawHeaders[i + 1] ?? ""]] : [])));

/** `tokens`: lines of tokens.txt. */
async function stage(yaml: string, { tokens = [] as string[], upstreamPath = "" } = {}) {
  const upstream = cleanup(await startUpstream());
  const folder = scratchFolder(cleanup);
  const file = join(folder, "c.yaml");
  writeFileSync(file, yaml);
  writeFileSync(join(folder, "tokens.txt"), `${tokens.join("\n")}\n`);
  const gateway = await startFromFile(cleanup, `${upstream.url}${upstreamPath}`, file, { "admin.port": "0" });
  const ask: Ask = async (line, fields = {}, token = "t") => {
    const [method = "", path = ""] = line.split(" ");
    const before = upstream.received.length;
    const headers = { ...fields, ...(token === null ? {} : { authorization: `Bearer ${token}` }) };
    const answer = await new Promise<Omit<Answer, "arrived">>((resolve, reject) => {
      request({ host: "127.0.0.1", port: gateway.traffic.port, method, path, headers, agent: false }, (response) => {
        const { statusCode: status = 0, rawHeaders } = response;
        response.resume().on("end", () => resolve({ status, fields: mapOf(rawHeaders) }));
      })
        .on("error", reject)
        .end();
    });
    const got = upstream.received[before];
    return { ...answer, arrived: got === undefined ? null : { target: got.target, fields: mapOf(got.rawHeaders) } };
  };
  return { ask, gateway, folder, upstream };
}

test("paths.md: each path of the table is answered so", async () => {
  const [, table = ""] = /\| path \| result \|\n\|---\|---\|\n(.*?)\n\n/s.exec(read("docs/paths.md")) ?? [];
  const { ask } = await stage("{}");
  let asked = 0;
  for (const row of table.split("\n")) {
    const [, cell = "", result = ""] = /^\| (.*?) \| (.*?) \|$/.exec(row) ?? [];
    // Those with another route, and a byte that only an ingress can name.
    if (cell.includes(" and ") || cell.includes(" with ")) continue;
    const status = /^(\d{3})/.exec(result)?.[1] ?? "200";
    for (const [, path = ""] of cell.matchAll(/`([^`]+)`/g)) {
      const answer = await ask(`GET ${path}`);
      expect([path, `${answer.status}`, answer.arrived?.target ?? null]).toEqual([
        path,
        status,
        status === "200" ? path : null,
      ]);
      asked += 1;
    }
  }
  expect(asked).toBeGreaterThan(30);
});

test("authentication.md: what the example of rules asks for", async () => {
  const { ask } = await stage(yamlBehind("docs/authentication.md", "## Which paths ask for what"), {
    tokens: [`${digestOf("listed")} # alice`],
  });
  const rows: readonly (readonly [line: string, token: string | null, status: number])[] = [
    ["POST /v1/login", null, 200],
    ["GET /v1/login", null, 401],
    ["POST /v1/Login", null, 401],
    ["GET /v2/status", null, 200],
    ["GET /v2/x", null, 401],
    ["GET /v2/x", "any", 200],
    ["GET /v1/x", "any", 401],
    ["GET /v1/x", "listed", 200],
  ];
  for (const [line, token, status] of rows)
    expect([line, token, (await ask(line, {}, token)).status]).toEqual([line, token, status]);
});

test("authentication.md: the table of modes and tokens, and who is charged", async () => {
  const rows = [...read("docs/authentication.md").matchAll(/^\| `(off|presence|tokens)` \| (.*) \|$/gm)];
  expect(rows).toHaveLength(3);
  const given = [null, 'a"b', "unknown", "expired", "scopeless", "good"];
  for (const [, mode = "", cells = ""] of rows) {
    const scopes = mode === "tokens" ? ", scopes: [s]" : "";
    const { ask } = await stage(
      `auth: { mode: tokens, tokensFile: tokens.txt, rules: [{ paths: [/v2/], mode: "${mode}"${scopes} }] }\n` +
        "policies:\n  - { name: o, who: others, limit: 50, window: 60s }\n  - { name: v, who: verified, limit: 90, window: 60s, key: [subject] }\n",
      {
        tokens: [
          `${digestOf("expired")} scopes=s expires=2020-01-01T00:00:00Z # e`,
          `${digestOf("scopeless")} # n`,
          `${digestOf("good")} scopes=s # g`,
        ],
      },
    );
    for (const [i, cell] of cells.split(" | ").entries()) {
      const { status, fields } = await ask("GET /v2/x", {}, given[i]);
      const charged = fields.get("ratelimit-limit") === "90" ? "token" : "address";
      expect([mode, given[i], `${status}, ${charged}`]).toEqual([mode, given[i], cell]);
    }
  }
});

test("authentication.md: browsers of the listed origins", async () => {
  const yaml = yamlBehind("docs/authentication.md", "## Browsers (CORS)");
  const { ask } = await stage(yaml.replace("https://app.example", "https://APP.example:443"));
  const preflight = { origin: "https://app.example", "access-control-request-method": "POST" };
  const rows: readonly (readonly [Readonly<Record<string, string>>, number, string | undefined])[] = [
    // The configuration of the page has them answered.
    [preflight, 204, preflight.origin],
    [{ ...preflight, origin: "HTTP://localhost:5173" }, 204, "http://localhost:5173"],
    [{ ...preflight, origin: "http://localhost:5174" }, 401, undefined],
    [{ ...preflight, origin: "null" }, 401, undefined],
    [{ ...preflight, "x-http-method-override": "POST" }, 401, preflight.origin],
    [{ origin: preflight.origin }, 401, preflight.origin],
  ];
  for (const [fields, status, allowed] of rows) {
    const answer = await ask("OPTIONS /v2/x", fields, null);
    expect([fields, answer.status, answer.fields.get("access-control-allow-origin")]).toEqual([
      fields,
      status,
      allowed,
    ]);
  }
});

test("headers.md: the headers of dropHeaders", async () => {
  const yaml = yamlBehind("docs/headers.md", "### Other headers that vouch for something: dropHeaders");
  const fields = { "x-ssl-client-cn": "a", "remote-user": "b", "x-other": "c" };
  const arrives = async (trusted: string) => {
    const { ask } = await stage(yaml.replace("10.0.0.0/8", trusted));
    expect((await ask("GET /v2/x", { remote_user: "x" })).status).toBe(400);
    const { arrived } = await ask("GET /v2/x", fields);
    return Object.keys(fields).filter((name) => arrived?.fields.has(name));
  };
  expect(await arrives("10.0.0.0/8")).toEqual(["x-other"]);
  expect(await arrives("127.0.0.0/8")).toEqual(Object.keys(fields));
});

test("policies.md: each short recipe counts what it says, and its overrides and exemptions hold", async () => {
  const recipes = [...read("docs/policies.md").matchAll(/^\| (.+?) \| `\{ name: (.+?), (.*\})` \|$/gm)];
  const names = recipes.map(([, , name = ""], i) => `${name}-${i}`);
  const { ask, gateway } = await stage(
    "auth: { mode: tokens, tokensFile: tokens.txt }\nclientAddress: { trustedProxies: [127.0.0.1] }\nquota: { path: /quota }\n" +
      "counters: { snapshot: { path: c } }\npolicies:\n  - { name: all, limit: 9000, window: 60s }\n" +
      recipes.map(([, , , rest = ""], i) => `  - { name: ${names[i]}, ${rest}\n`).join(""),
    { tokens: [`${digestOf("t")} # alice`, `${digestOf("partners")} # partner`] },
  );
  const stranger = { "x-forwarded-for": "192.0.2.1", "x-api-key": "k" };
  const { status } = await ask("POST /v2/crypto/synced/42/refresh", stranger);
  expect([status, (await ask("POST /v2/crypto/synced/7/refresh", stranger)).status]).toEqual([200, 429]);
  const metrics = await (await fetch(`${gateway.adminUrl}/metrics`)).text();
  const counted = names.filter((name) => metrics.includes(`{policy="${name}",outcome="admitted"} 1\n`));
  expect(counted).toEqual(names);
  const quotas = async (client: string, token: string) => {
    const headers = { "x-forwarded-for": client, authorization: `Bearer ${token}` };
    const { policies } = (await (await fetch(`${gateway.url}/quota`, { headers })).json()) as {
      policies: { name: string; limit: number; state: string }[];
    };
    return (want: string) => {
      const { limit, state } =
        policies.find(({ name }) => name === names[recipes.findIndex(([, text]) => text?.startsWith(want))]) ?? {};
      return [limit, state];
    };
  };
  const [ofStranger, ofPartner] = [await quotas("192.0.2.9", "t"), await quotas("203.0.113.9", "partners")];
  expect([ofStranger, ofPartner].map((of) => of("a partner with a higher limit"))).toEqual([
    [100, "open"],
    [1000, "open"],
  ]);
  expect([ofStranger, ofPartner].map((of) => of("100 for each pair"))).toEqual([
    [100, "open"],
    [1000, "open"],
  ]);
  const inside = await quotas("10.1.2.3", "t");
  expect(inside("no limit for an internal network")).toEqual([100, "exempt"]);
});

test("policies.md: the example of overrides", async () => {
  const { ask } = await stage(
    `clientAddress: { trustedProxies: [127.0.0.1] }\n${yamlBehind("docs/policies.md", "must be a part of the policy's `key`:").replace(/^ {2}- \{ name: per-ip.*\n/m, "")}`,
  );
  const limitOf = async (client: string, key: string) =>
    (await ask("GET /v2/x", { "x-forwarded-for": client, "x-api-key": key })).fields.get("ratelimit-limit");
  expect([await limitOf("192.0.2.1", "a"), await limitOf("203.0.113.7", "a")]).toEqual(["100", "1000"]);
  expect([await limitOf("192.0.2.1", "7c9e6679"), await limitOf("203.0.113.7", "7c9e6679")]).toEqual(["5000", "5000"]);
});

test("policies.md and rate-limiting.md: enforcement, fields, routes and basePath do what they say", async () => {
  const one = "policies: [{ name: per-ip, limit: 1, window: 60s }]\n";
  const shadow = await stage(`enforcement: shadow\n${one}`);
  for (let i = 0; i < 3; i += 1) expect((await shadow.ask("GET /v2/x")).status).toBe(200);

  expect(read("docs/rate-limiting.md")).toContain(
    'RateLimit-Policy: "per-ip";q=100;w=60\nRateLimit: "per-ip";r=99;t=60',
  );
  const { fields } = await (await stage("fields: [standard, legacy, structured]")).ask("GET /v2/x");
  expect([fields.get("ratelimit-policy"), fields.get("ratelimit")]).toEqual([
    '"per-ip";q=100;w=60',
    // 61 in the millisecond of the admission, which is rounded up.
    expect.stringMatching(/^"per-ip";r=99;t=6[01]$/),
  ]);

  const open = await stage(`unmatched: proxy\n${one}`);
  for (let i = 0; i < 3; i += 1) expect((await open.ask("GET /other", {}, null)).status).toBe(200);
  expect((await open.ask("GET //v2/x", {}, null)).status).toBe(401);

  const below = await stage("basePath: /finance\n", { upstreamPath: "/api" });
  const asked = ["GET /finance/v1/x", "GET /v1/x", "GET /Finance/v1/x"];
  const answers = await Promise.all(asked.map((line) => below.ask(line)));
  expect(answers.map(({ status }) => status)).toEqual([200, 404, 400]);
  expect(below.upstream.received.map(({ target }) => target)).toEqual(["/api/v1/x"]);
});

test("policies.md: what is left for me, as it is shown", async () => {
  const [, shown = ""] = /^```json\n(\{"isVerified".*?)\n```/m.exec(read("docs/policies.md")) ?? [];
  const { ask, gateway } = await stage("quota: { path: /quota }\n");
  for (let i = 0; i < 3; i += 1) await ask("GET /v2/x");
  const told = JSON.parse(
    await (await fetch(`${gateway.url}/quota`))
      .text()
      .then((text) => text.replace(/"resetSeconds":\d+/, '"resetSeconds":42')),
  );
  expect(told).toEqual(JSON.parse(shown));
});

test("rate-limiting.md and authentication.md: the 429 and the 401 have the headers and the body that are shown", async () => {
  const upstream = cleanup(await startUpstream());
  const file = join(scratchFolder(cleanup), "c.yaml");
  writeFileSync(file, "auth: { realm: finance }\npolicies: [{ name: per-ip, limit: 1, window: 60s }]\n");
  const gateway = await startFromFile(cleanup, upstream.url, file, { "admin.port": "0" });
  const client = cleanup(new RawConnection(gateway.traffic.port));
  for (const [page, status] of [
    ["docs/authentication.md", 401],
    ["docs/rate-limiting.md", 429],
  ] as const) {
    const [, head = "", body = ""] =
      new RegExp(`^\`\`\`\\n(HTTP/1.1 ${status} .*?)\\n\\n(.*?)\\n\`\`\``, "ms").exec(read(page)) ?? [];
    const answer = await client.ask("GET /v2/x HTTP/1.1\r\nHost: a\r\n\r\n");
    expect([page, answer.status, answer.body]).toEqual([page, status, body]);
    const given = new Map(
      answer.rawHeaders.flatMap((name, i) => (i % 2 === 0 ? [[name, answer.rawHeaders[i + 1]]] : [])),
    );
    for (const line of head.split("\n").slice(1)) {
      const [name = "", value = ""] = line.split(": ");
      expect([page, name, given.has(name)]).toEqual([page, name, true]);
      if (/^(WWW|Cache|Content)-/.test(name)) expect([name, given.get(name)]).toEqual([name, value]);
    }
  }
});

test("rate-limiting.md: what the table of costs says", async () => {
  const { ask } = await stage("quota: { path: /quota }\nmaxBodyBytes: 1000\n");
  let left = 100;
  const rows: readonly (readonly [
    line: string,
    fields: Readonly<Record<string, string>>,
    status: number,
    cost: number,
  ])[] = [
    ["GET /v2/x", {}, 200, 1],
    ["HEAD /v2/x", {}, 200, 1],
    ["OPTIONS /v2/x", {}, 200, 1],
    ["POST /v2/x", { "content-length": "2000" }, 413, 1],
    [`GET /v2/${"x".repeat(9000)}`, {}, 414, 1],
    ["GET /v3/x", {}, 404, 0],
    ["GET /quota", {}, 200, 0],
    ["OPTIONS *", {}, 204, 0],
    ["GET /v2/x", { "x-long": "x".repeat(20_000) }, 431, 0],
    ["GET /v2/x", { x_forwarded_for: "a" }, 400, 1],
  ];
  for (const [line, fields, status, cost] of rows) {
    left -= cost;
    const answer = await ask(line, fields);
    expect([line.slice(0, 20), answer.status, answer.fields.get("ratelimit-remaining")]).toEqual([
      line.slice(0, 20),
      status,
      `${left}`,
    ]);
  }
});

test("behaviour.md: a path for WebSocket that is open, and no protocols at all", async () => {
  const switching = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
  const upstream = await startRawUpstream((socket, data) => {
    socket.write(data.includes("Upgrade: websocket") ? switching : "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
  });
  cleanup(() => upstream.close());
  const statuses = async (yaml: string, paths: readonly string[]) => {
    const file = join(scratchFolder(cleanup), "c.yaml");
    writeFileSync(file, yaml);
    const gateway = await startFromFile(cleanup, upstream.url, file, { "admin.port": "0", "drain.timeout": "1ms" });
    return await Promise.all(
      paths.map(async (path) => {
        const client = cleanup(new RawConnection(gateway.traffic.port));
        client.write(`GET ${path} HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n`);
        return (await client.readHead()).status;
      }),
    );
  };
  const open = yamlBehind("docs/behaviour.md", "cookie and `Origin`:");
  expect(await statuses(open, ["/v2/live", "/v2/Live", "/v2/x"])).toEqual([101, 401, 401]);
  expect(await statuses(`${open}upgrade: { protocols: [] }\n`, ["/v2/live"])).toEqual([200]);
});

test("client-address.md: what a proxy may write is read so, and IPv4 inside IPv6 counts as that", async () => {
  const { ask } = await stage("clientAddress: { trustedProxies: [127.0.0.1] }\nauth: { mode: off }\n");
  const left = async (client: string): Promise<number> =>
    Number((await ask("GET /v2/x", { "x-forwarded-for": client })).fields.get("ratelimit-remaining"));
  const page = read("docs/client-address.md");
  const [, forms = ""] = /^\| form \| read as \|\n\|---\|---\|\n(.*?)\n\n/ms.exec(page) ?? [];
  const [, inside = ""] = /^\| address \| counted as \| why \|\n\|---\|---\|---\|\n(.*?)\n\n/ms.exec(page) ?? [];
  let asked = 0;
  for (const row of `${forms}\n${inside}`.split("\n")) {
    const [, cell = "", told = ""] = /^\| (.*?) \| (.*?) \|/.exec(row) ?? [];
    const written = [...cell.matchAll(/`([^`]+)`/g)].map(([, text = ""]) => text).filter((text) => !text.includes("…"));
    // What is no address is charged to the proxy, of the nine groups the first eight count, and a network by one of its addresses.
    const shown = /`([^`]+)`/.exec(told)?.[1]?.replace("::/64", "::1:0:0:5");
    const meant =
      told === "no address" ? "127.0.0.1" : told === "the first eight" ? written[0]?.replace(/:80$/, "") : shown;
    if (meant === undefined) continue;
    for (const text of written) {
      const before = await left(meant);
      expect([text, before - (await left(text))]).toEqual([text, 1]);
      asked += 1;
    }
  }
  expect(asked).toBeGreaterThan(18);
});
