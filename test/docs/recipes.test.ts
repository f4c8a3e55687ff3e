// What docs/recipes.md says that its recipes give to clients, tried with the real gateway.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { loadSettings } from "../../src/config/load.ts";
import { configurationWarnings } from "../../src/config/warnings.ts";
import { renderConfigError } from "../../src/config/written.ts";
import { digestOf } from "../auth/digest.ts";
import { useCleanup } from "../support/cleanup.ts";
import { slidingPolicy } from "../support/policy.ts";
import { valuesOf } from "../support/raw-client.ts";
import type { FramedResponse } from "../support/raw-connection.ts";
import { scratchFolder } from "../support/scratch.ts";
import { response, stageRaw } from "../support/stage.ts";
import { read } from "./markdown.ts";

const cleanup = useCleanup();

const limitOf = ({ status, rawHeaders }: FramedResponse): (number | string | undefined)[] => [
  status,
  ...["RateLimit-Limit", "RateLimit-Remaining"].map((name) => valuesOf(rawHeaders, name)[0]),
];

test("100 by address, 1,000 for partner tokens: who has no listed token spends what its address has, and no partner's", async () => {
  const folder = scratchFolder(cleanup);
  const [, yaml = ""] = /^## 100 by address.*?^```yaml\n(.*?)^```/ms.exec(read("docs/recipes.md")) ?? [];
  writeFileSync(join(folder, "c.yaml"), yaml);
  const lines = ["one", "two", "partner"].map((name) => `${digestOf(`token-${name}`)}  # ${name}\n`);
  writeFileSync(join(folder, "tokens.txt"), lines.join(""));
  const loaded = loadSettings({ file: "c.yaml", env: {}, cwd: folder, overrides: [] });
  if (!loaded.ok) throw new Error(loaded.errors.map(renderConfigError).join("\n"));
  expect(configurationWarnings(loaded.settings)).toEqual([]);
  const { auth, policies } = loaded.settings;
  const { connect } = await stageRaw(cleanup, (socket) => void socket.write(response("ok")), { auth, policies });
  const clients = new Map(["127.0.0.2", "127.0.0.3"].map((localAddress) => [localAddress, connect({ localAddress })]));
  const ask = async (address: string, token: string): Promise<(number | string | undefined)[]> => {
    const client = clients.get(address);
    client?.write(`GET /v2/x HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer token-${token}\r\n\r\n`);
    return client === undefined ? [] : limitOf(await client.read());
  };
  for (let left = 99; left >= 0; left -= 1) {
    expect(await ask("127.0.0.2", `invented-${left}`)).toEqual([401, "100", `${left}`]);
  }
  expect(await ask("127.0.0.2", "invented")).toEqual([429, "100", "0"]);
  expect(await ask("127.0.0.3", "invented")).toEqual([401, "100", "99"]);
  expect(await ask("127.0.0.2", "one")).toEqual([200, "1000", "999"]);
  expect(await ask("127.0.0.3", "one")).toEqual([200, "1000", "998"]);
  expect(await ask("127.0.0.2", "partner")).toEqual([200, "1000", "999"]);
});

test("failed logins: the gateway's own 401 is charged, and a 200 shows the policy with the unit that it held", async () => {
  const policies = [
    slidingPolicy({ limit: 100, windowMs: 60_000 }),
    slidingPolicy({ name: "failed-logins", limit: 10, windowMs: 900_000, chargeStatuses: [401, 403] }),
  ];
  const { connect } = await stageRaw(cleanup, (socket) => void socket.write(response("ok")), { policies });
  const client = connect();
  const ask = async (fields: string): Promise<(number | string | undefined)[]> => {
    return limitOf(await client.ask(`GET /v2/x HTTP/1.1\r\nHost: a\r\n${fields}\r\n`));
  };
  const token = "Authorization: Bearer x\r\n";
  expect([await ask(token), await ask(token)]).toEqual([200, 200].map((status) => [status, "10", "9"]));
  expect(await ask("")).toEqual([401, "10", "9"]);
  expect(await ask(token)).toEqual([200, "10", "8"]);
  for (let failures = 1; failures < 10; failures += 1) expect((await ask(""))[0]).toBe(401);
  expect((await ask(token))[0]).toBe(429);
});
