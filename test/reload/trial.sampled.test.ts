// Reloads on trial: the configuration before comes back unless somebody confirms in time, with the counts and the connections
// as they are. With one thread and with two.
import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import type { Policy } from "../../src/core/policy.ts";
import type { TrialTerms } from "../../src/core/reload.ts";
import { digestOf } from "../auth/digest.ts";
import { useCleanup } from "../support/cleanup.ts";
import { FakeClock } from "../support/clock.ts";
import { type Overrides, testSettings } from "../support/gateway.ts";
import { metric } from "../support/metrics.ts";
import { slidingPolicy } from "../support/policy.ts";
import { valuesOf } from "../support/raw-client.ts";
import type { RawConnection } from "../support/raw-connection.ts";
import { threadCounts } from "../support/runs.ts";
import { scratchFolder } from "../support/scratch.ts";
import { request, response, stageRaw } from "../support/stage.ts";

const cleanup = useCleanup();

const perIp = (limit: number, others: Partial<Policy> = {}): Policy => ({
  ...slidingPolicy({ limit, windowMs: 60_000 }),
  ...others,
});

const terms = (others: Partial<TrialTerms> = {}): TrialTerms => ({
  ...{ confirmWithinMs: 300_000, refusedShare: null, unconfirmed: "takeBack" },
  ...others,
});

/** Threads have the real clock, so that with two of them time passes by itself. */
async function stage(workers = 1, overrides: Overrides = {}) {
  const clock = new FakeClock();
  const all: Overrides = { workers, policies: [perIp(100)], ...overrides };
  const answer = response("ok");
  const { upstream, gateway, connect } = await stageRaw(
    cleanup,
    (socket) => void socket.write(answer),
    all,
    workers === 1 ? clock : undefined,
  );
  const client = connect();
  /** The status, and what is left. */
  const ask = async (on: RawConnection = client): Promise<[number, number]> => {
    const { status, rawHeaders } = await on.ask(request("/v2/x"));
    return [status, Number(valuesOf(rawHeaders, "RateLimit-Remaining")[0])];
  };
  const settings = (others: Overrides = {}) =>
    testSettings(upstream.url, { drain: { timeoutMs: 0 }, ...all, ...others });
  const lines = (msg: string) => gateway.logLines.filter((line) => String(line["msg"]).startsWith(msg));
  const trials = (outcome: string, reason: string) =>
    metric(gateway, `headgate_reload_trials_total{outcome="${outcome}",reason="${reason}"}`);
  /** Until the trial is over. */
  const over = () => expect.poll(() => gateway.trial.trial).toBeNull();
  return { clock, gateway, connect, ask, settings, lines, trials, over };
}

describe.each(threadCounts)("with %i threads", (workers) => {
  test("a limit of 1 that nobody confirms is taken back after its time, counts and connections as before", async () => {
    const { clock, gateway, ask, settings, lines, trials, over } = await stage(workers);
    // With the real clock: long enough for a busy machine to ask and look before it is over.
    const confirmWithinMs = workers === 1 ? 30_000 : 4_000;
    for (let left = 99; left >= 90; left -= 1) expect(await ask()).toEqual([200, left]);
    const changed = { policies: [perIp(1)] };
    const result = await gateway.reload(settings(changed), terms({ confirmWithinMs }));
    expect(result).toMatchObject({ ok: true, changed: ["policies.per-ip"] });
    expect(await ask()).toEqual([429, 0]);
    expect(gateway.trial.trial).toMatchObject({ confirmWithinMs, unconfirmed: "takeBack" });
    expect(await metric(gateway, "headgate_reload_on_trial")).toBe(1);
    clock.advance(confirmWithinMs);
    await over();
    expect(lines("reload on trial taken back")).toMatchObject([{ level: "warn", reason: "time" }]);
    expect([await trials("taken_back", "time"), await metric(gateway, "headgate_reload_on_trial")]).toEqual([1, 0]);
    expect(await ask()).toEqual([200, 89]);
  });

  test("one that is confirmed stays, and one that may be kept is confirmed by its time", async () => {
    const { clock, gateway, ask, settings, lines, trials, over } = await stage(workers);
    await gateway.reload(settings({ policies: [perIp(50)] }), terms());
    expect(await gateway.trial.confirm()).toMatchObject({ confirmWithinMs: 300_000 });
    expect(await gateway.trial.confirm()).toBeNull();
    expect(await gateway.trial.takeBack()).toBeNull();
    clock.advance(300_000);
    expect(await ask()).toEqual([200, 49]);
    const kept = terms({ unconfirmed: "keep", confirmWithinMs: 1_000 });
    await gateway.reload(settings({ policies: [perIp(40)] }), kept);
    clock.advance(1_000);
    await over();
    expect(await ask()).toEqual([200, 38]);
    expect(lines("reload on trial confirmed").map(({ reason }) => reason)).toEqual(["asked", "time"]);
    expect([await trials("confirmed", "asked"), await trials("confirmed", "time")]).toEqual([1, 1]);
  });

  test("a policy with another key is given up only when the trial is over, so its counts come back with it", async () => {
    const { gateway, ask, settings } = await stage(workers);
    for (let i = 0; i < 10; i += 1) await ask();
    const other = { policies: [perIp(100, { key: [{ kind: "client" }, { kind: "method" }] })] };
    await gateway.reload(settings(other), terms());
    expect(await ask()).toEqual([200, 99]);
    expect(await gateway.trial.takeBack()).toMatchObject({ ok: true });
    expect(await ask()).toEqual([200, 89]);
    await gateway.reload(settings(other), terms());
    await gateway.trial.confirm();
    await gateway.reload(settings());
    expect(await ask()).toEqual([200, 99]);
  });
});

test("a second reload on trial goes back to the configuration before the first, with a clock of its own", async () => {
  const { clock, gateway, ask, settings, lines } = await stage();
  await gateway.reload(settings({ policies: [perIp(50)] }), terms());
  clock.advance(200_000);
  await gateway.reload(settings({ policies: [perIp(20)] }), terms());
  expect(gateway.trial.trial?.endsMs).toBe(clock.wallMs() + 300_000);
  // The same again: only the time begins anew.
  clock.advance(200_000);
  expect(await gateway.reload(settings({ policies: [perIp(20)] }), terms())).toMatchObject({ changed: [] });
  // Compared with what would come back, not with what was in force last.
  expect(gateway.trial.trial?.changed).toEqual(["policies.per-ip"]);
  expect(gateway.trial.trial?.endsMs).toBe(clock.wallMs() + 300_000);
  expect(await gateway.trial.takeBack()).toMatchObject({ ok: true, changed: ["policies.per-ip"] });
  expect(await ask()).toEqual([200, 99]);
  expect(lines("reload on trial").map(({ msg }) => String(msg).split(" ")[3]?.replace(",", ""))).toEqual([
    ...["begun", "begun", "begun", "taken"],
  ]);
});

test("a reload that is not on trial confirms, and one with a mistake changes nothing", async () => {
  const { gateway, ask, settings, trials, clock } = await stage();
  await gateway.reload(settings({ policies: [perIp(50)] }), terms());
  const auth = { mode: "tokens" as const, tokensFile: "/nowhere/tokens.txt" };
  expect(await gateway.reload(settings({ auth }))).toMatchObject({ ok: false });
  expect(await gateway.reload(settings({ auth }), terms())).toMatchObject({ ok: false });
  expect(gateway.trial.trial).not.toBeNull();
  await gateway.reload(settings({ policies: [perIp(30)] }));
  expect(gateway.trial.trial).toBeNull();
  expect(await trials("confirmed", "reload")).toBe(1);
  clock.advance(300_000);
  expect(await ask()).toEqual([200, 29]);
});

test("a reload on trial that changes nothing begins no trial", async () => {
  const { gateway, settings, lines } = await stage();
  expect(await gateway.reload(settings(), terms())).toMatchObject({ ok: true, changed: [] });
  expect([gateway.trial.trial, lines("reload on trial")]).toEqual([null, []]);
});

test("keys under reload are not on trial: a take-back leaves them, and alone they begin none", async () => {
  const { gateway, ask, settings, lines } = await stage();
  const trial = { confirmWithinMs: 60_000, unlessRefused: null, unconfirmed: "takeBack" as const };
  const added = { reload: { watch: true, trial } };
  expect(await gateway.reload(settings(added), terms())).toMatchObject({ changed: ["reload.trial.confirmWithin"] });
  expect([gateway.trial.trial, lines("reload on trial")]).toEqual([null, []]);
  const other = { reload: { watch: false, trial } };
  await gateway.reload(settings({ ...other, policies: [perIp(50)] }), terms());
  expect(gateway.trial.trial?.changed).toEqual(["policies.per-ip"]);
  await gateway.reload(settings({ ...added, policies: [perIp(50)] }), terms());
  expect(await gateway.trial.takeBack()).toMatchObject({ changed: ["policies.per-ip"] });
  expect(await ask()).toEqual([200, 99]);
  expect(await gateway.reload(settings(added))).toMatchObject({ changed: [] });
});

test("a drain ends the trial, and takes nothing back", async () => {
  const { gateway, settings, lines } = await stage();
  await gateway.reload(settings({ policies: [perIp(50)] }), terms());
  const drained = gateway.drain();
  expect(await gateway.trial.takeBack()).toBeNull();
  await drained;
  expect(lines("reload on trial ended by the drain")).toMatchObject([{ level: "warn" }]);
  expect(lines("reload on trial taken back")).toEqual([]);
});

test("what cannot be taken back is tried again until it can", async () => {
  const folder = scratchFolder(cleanup);
  const tokensFile = join(folder, "tokens.txt");
  const write = () => writeFileSync(tokensFile, `${digestOf("secret-token")} # alice\n`);
  write();
  const { clock, gateway, settings, lines, over } = await stage(1, { auth: { mode: "tokens", tokensFile } });
  await gateway.reload(settings({ auth: { mode: "presence", tokensFile: null } }), terms());
  rmSync(tokensFile);
  clock.advance(300_000);
  await expect.poll(() => lines("reload failed").length).toBe(1);
  expect(gateway.trial.trial).not.toBeNull();
  write();
  clock.advance(10_000);
  await over();
  expect(lines("reload on trial taken back")).toMatchObject([{ reason: "time" }]);
});
