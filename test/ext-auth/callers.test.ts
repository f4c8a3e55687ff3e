// The callers that may ask for checks: only those that are listed or show a secret. Unverified peers do not keep them out.
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { digestOf } from "../auth/digest.ts";
import { useCleanup } from "../support/cleanup.ts";
import { eventually, within } from "../support/eventually.ts";
import { metric } from "../support/metrics.ts";
import { valuesOf } from "../support/raw-client.ts";
import { RawConnection } from "../support/raw-connection.ts";
import { scratchFolder } from "../support/scratch.ts";
import { stageDecision, token } from "./stage.ts";

const cleanup = useCleanup();
const call = `X-Forwarded-For: 192.0.2.1\r\n${token}`;
const nobody = { trustedCallers: ["203.0.113.1"] };

function secretsFile(...secrets: string[]): string {
  const folder = scratchFolder(cleanup);
  const file = join(folder, "secrets.txt");
  writeFileSync(file, secrets.map((secret) => `${digestOf(secret)}\n`).join(""));
  return file;
}

test("a caller that is not listed gets a clear 403, costs nobody a request, and its connection ends", async () => {
  const { connect, gateway } = await stageDecision(cleanup, nobody);
  const connection = connect();
  connection.write(`GET /ext-authz/v2/x HTTP/1.1\r\nHost: a\r\n${call}X-Headgate-Secret: guess\r\n\r\n`);
  const answer = await connection.read();
  expect(answer.status).toBe(403);
  expect(JSON.parse(answer.body)).toEqual({
    message: "Forbidden",
    errors: [{ errMsg: "This caller may not ask for decisions: see extAuth.trustedCallers and extAuth.secretsFile." }],
  });
  // Or an ingress that lets failures pass would let everything pass.
  expect(valuesOf(answer.rawHeaders, "X-Headgate-Status")).toEqual(["403"]);
  expect(valuesOf(answer.rawHeaders, "RateLimit-Limit")).toEqual([]);
  expect(await connection.closed).toBe("end");
  expect(await metric(gateway, 'headgate_clients_tracked{policy="per-ip"}')).toBe(0);
  expect(await metric(gateway, 'headgate_ext_auth_checks_total{outcome="untrusted"}')).toBe(1);
  expect(gateway.logLines).toContainEqual(
    expect.objectContaining({
      reason: "untrusted",
      caller: "127.0.0.1",
      detail: "This caller may not ask for decisions: see extAuth.trustedCallers and extAuth.secretsFile.",
    }),
  );
});

test("a secret that is listed opens the door, one that is not, is given twice or is another's digest does not", async () => {
  const { ask, gateway } = await stageDecision(cleanup, {
    ...nobody,
    secretsFile: secretsFile("first-secret", "second-secret"),
  });
  const show = (...secrets: string[]): string => secrets.map((secret) => `X-Headgate-Secret: ${secret}\r\n`).join("");
  const rows: [string, number][] = [
    [show("first-secret"), 200],
    [show("second-secret").toLowerCase(), 200],
    [show("first-secre"), 403],
    [show(""), 403],
    [show("first-secret", "first-secret"), 403],
    [show(digestOf("first-secret")), 403],
    ["Authorization: Bearer first-secret\r\n", 403],
  ];
  for (const [shown, status] of rows) {
    const fields = shown.startsWith("Auth") ? "X-Forwarded-For: 192.0.2.1\r\n" : call;
    expect([shown, (await ask("/ext-authz/v2/x", fields + shown)).status]).toEqual([shown, status]);
  }
  expect(JSON.stringify(gateway.logLines)).not.toContain("-secre");
});

test("a secret that is taken out of the file opens nothing any more", async () => {
  const file = secretsFile("first-secret", "second-secret");
  const { ask, gateway } = await stageDecision(cleanup, { ...nobody, secretsFile: file });
  const show = (secret: string) => ask("/ext-authz/v2/x", `${call}X-Headgate-Secret: ${secret}\r\n`);
  expect((await show("first-secret")).status).toBe(200);
  writeFileSync(file, `${digestOf("second-secret")}\n`);
  const reread = () => gateway.logLines.find(({ msg }) => msg === "secrets file reread");
  await eventually("the file is reread", () => reread() !== undefined);
  expect(reread()).toMatchObject({ secrets: 1 });
  expect((await show("first-secret")).status).toBe(403);
  expect((await show("second-secret")).status).toBe(200);
});

test("strangers that hold 64 connections open keep no caller out; for one more, one of the same stranger is closed", async () => {
  const { gateway, ask } = await stageDecision(cleanup, { trustedCallers: ["127.0.0.1"] });
  const open = async (localAddress: string): Promise<RawConnection> => {
    const stranger = cleanup(new RawConnection(gateway.extAuth?.port ?? 0, { localAddress }));
    stranger.write("GET /ext-authz/v2/x HTTP/1.1\r\n");
    await once(stranger.socket, "connect");
    return stranger;
  };
  const other = await open("127.0.0.3");
  const strangers: RawConnection[] = [];
  // Half of the places for those that are not verified.
  for (let i = 0; i < 64; i += 1) strangers.push(await open("127.0.0.2"));
  expect(await metric(gateway, 'headgate_ext_auth_checks_total{outcome="overloaded"}')).toBe(0);
  const late = await open("127.0.0.2");
  await within("the first is closed", strangers[0]?.closed ?? Promise.reject());
  expect([late, other, ...strangers.slice(1)].every(({ ending }) => ending === null)).toBe(true);
  expect((await late.ask("Host: a\r\n\r\n")).status).toBe(403);
  expect(await metric(gateway, 'headgate_ext_auth_checks_total{outcome="overloaded"}')).toBe(1);
  expect((await ask("/ext-authz/v2/x", call)).status).toBe(200);
});

test("a stranger that shows a secret is a caller from then on, until callers of its address have their share", async () => {
  const http = { host: "127.0.0.1", port: 0, maxConnections: 4 };
  const { connect, gateway } = await stageDecision(cleanup, { ...nobody, http, secretsFile: secretsFile("secret") });
  const write = `GET /ext-authz/v2/x HTTP/1.1\r\nHost: a\r\n${call}X-Headgate-Secret: secret\r\n\r\n`;
  const open = Array.from({ length: 70 }, connect);
  for (const connection of open.slice(0, 3)) {
    expect((await connection.ask(write)).status).toBe(200);
  }
  const closed = () => open.filter(({ ending }) => ending !== null).length;
  await eventually("there are 64 strangers beside 2 callers", () => closed() === 4);
  expect(await metric(gateway, 'headgate_ext_auth_checks_total{outcome="overloaded"}')).toBe(4);
});

test("one caller has no more of maxConnections than are free, and the next one gets its own", async () => {
  const http = { host: "127.0.0.1", port: 0, maxConnections: 8 };
  const { gateway } = await stageDecision(cleanup, { http, trustedCallers: ["127.0.0.0/8"] });
  /** How many of eight connections are answered. */
  const answered = async (localAddress: string): Promise<number> => {
    let count = 0;
    for (let i = 0; i < 8; i += 1) {
      const caller = cleanup(new RawConnection(gateway.extAuth?.port ?? 0, { localAddress }));
      caller.write(`GET /ext-authz/v2/x HTTP/1.1\r\nHost: a\r\n${call}\r\n`);
      const { status } = await caller.read().catch(() => ({ status: null }));
      if (status === 200) count += 1;
    }
    return count;
  };
  const addresses = [2, 3, 4, 5, 6].map((last) => `127.0.0.${last}`);
  const got = [];
  for (const address of addresses) got.push(await answered(address));
  expect(got).toEqual([4, 2, 1, 1, 0]);
  expect(await metric(gateway, 'headgate_ext_auth_checks_total{outcome="overloaded"}')).toBe(40 - 8);
});

const startWarning =
  "every ext-auth call so far was refused: extAuth.trustedCallers and extAuth.secretsFile do not allow this caller";

test("when the first ten calls are all untrusted, one warning names the keys and the caller", async () => {
  const { ask, gateway } = await stageDecision(cleanup, nobody);
  const warnings = () => gateway.logLines.filter(({ msg }) => msg === startWarning);
  for (let i = 0; i < 9; i += 1) await ask("/ext-authz/v2/x", call);
  expect(warnings()).toEqual([]);
  for (let i = 0; i < 30; i += 1) await ask("/ext-authz/v2/x", call);
  expect(warnings()).toEqual([
    expect.objectContaining({
      level: "warn",
      keys: ["extAuth.trustedCallers", "extAuth.secretsFile"],
      caller: "127.0.0.1",
      calls: 10,
    }),
  ]);
});

test("once a caller was accepted, untrusted calls are no sign of a wrong configuration", async () => {
  const { ask, gateway } = await stageDecision(cleanup, { ...nobody, secretsFile: secretsFile("secret") });
  for (let i = 0; i < 9; i += 1) await ask("/ext-authz/v2/x", call);
  expect((await ask("/ext-authz/v2/x", `${call}X-Headgate-Secret: secret\r\n`)).status).toBe(200);
  for (let i = 0; i < 20; i += 1) await ask("/ext-authz/v2/x", call);
  expect(gateway.logLines.filter(({ msg }) => msg === startWarning)).toEqual([]);
});
