// A pod with the sidecar, acted out with processes as the kubelet would: what is started, asked and told, and when, is read
// from the manifests, with every duration at a third, but the drain's delay. The application ends at once when it is told to, as
// legacy ones do.
import { once } from "node:events";
import { readFileSync, writeFileSync } from "node:fs";
import { get } from "node:http";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { loadSettings } from "../../src/config/load.ts";
import type { Cleanup } from "../support/cleanup.ts";
import { eventually, within } from "../support/eventually.ts";
import { type GatewayProcess, startGatewayProcess } from "../support/gateway-process.ts";
import { startProcessGroup } from "../support/process-group.ts";
import { scratchFolder } from "../support/scratch.ts";
import { freeAddress } from "../support/unavailable.ts";
import { at, filledIn, folder, only, readManifests } from "./manifests.ts";

/** What the manifests have is divided by this. */
export const scale = 3;
/** The drain's delay is divided by this. At a third, a client that the machine stops for a second would miss its end. */
const delayScale = 1.5;
const legacyApplication = fileURLToPath(new URL("./legacy-application.ts", import.meta.url));

export interface ActedPod {
  readonly gateway: GatewayProcess;
  /** What happened, in order. */
  readonly events: readonly string[];
  /** Acts out the deletion; resolves with its length, at the scale, when both containers are gone. */
  delete(options?: { readonly runHooks?: boolean }): Promise<{ readonly tookMs: number; readonly graceMs: number }>;
}

/** Resolves when the pod is ready. Rejects, and does not start the application, when the gateway's start fails. */
export async function startPod(cleanup: Cleanup, settings: readonly string[] = []): Promise<ActedPod> {
  const { spec, sidecar, application } = manifests();
  const events: string[] = [];
  const upstream = await freeAddress();
  const volume = scratchFolder(cleanup);
  const config = join(volume, "headgate.yaml");
  writeFileSync(config, filledIn(readFileSync(`${folder}components/sidecar/headgate.yaml`, "utf8")));
  const mounted = [`counters.snapshot.path=${join(volume, "counters")}`, `admin.socket=${join(volume, "admin.sock")}`];
  // Where the machine stalls, the application can be reached all the same.
  const set = [...scaledDrain(config), ...mounted, "upstream.connectTimeout=60s", ...settings];
  const gateway = await startGatewayProcess(cleanup, upstream, set, { config });
  events.push("gateway started");
  await probe(gateway, at(sidecar, "startupProbe"));
  events.push("startup probe succeeded");
  const app = startProcessGroup(process.execPath, [legacyApplication, new URL(upstream).port], { stderr: "inherit" });
  const appGone = app.exited.then(() => void events.push("application gone"));
  void gateway.exited.then(() => events.push("gateway gone"));
  cleanup(app.end);
  await within("the application listens", once(app.child.stdout, "data"));
  events.push("application started");
  await probe(gateway, at(sidecar, "readinessProbe"));
  events.push("ready");

  const graceMs = (Number(spec["terminationGracePeriodSeconds"]) * 1_000) / scale;
  const deletePod = async ({ runHooks = true } = {}): Promise<{ tookMs: number; graceMs: number }> => {
    events.push("deleted");
    // Both hooks run at once; a container is told to end when its own has returned.
    const hook = runHooks ? runExec(at(sidecar, "lifecycle.preStop.exec.command") as string[], gateway) : null;
    // The times of the pod begin with the drain, because a busy machine takes seconds to start the hook's process.
    if (runHooks) await eventually("the drain begins", () => gateway.output.out.includes('"msg":"draining"'), 20_000);
    const startMs = performance.now();
    const isOver = sleep(graceMs, "killed", { ref: false });
    const told = runHooks ? sleep((Number(at(application, "lifecycle.preStop.sleep.seconds")) * 1_000) / scale) : null;
    const ended = Promise.resolve(told).then(async () => {
      events.push("application told");
      app.child.kill("SIGTERM");
      await appGone;
      // The sidecar's turn, unless its hook is still running.
      await hook;
      gateway.signal("SIGTERM");
      await gateway.exited;
    });
    if ((await Promise.race([ended, isOver])) === "killed") throw new Error(`killed after ${graceMs} ms`);
    return { tookMs: performance.now() - startMs, graceMs };
  };
  return { gateway, events, delete: deletePod };
}

function manifests() {
  const [patch] = readManifests("components/sidecar/container.yaml");
  const deployment = only(readManifests("sidecar/app.yaml"), "Deployment");
  return {
    spec: at(patch, "spec.template.spec") as Record<string, unknown>,
    sidecar: at(patch, "spec.template.spec.initContainers.0"),
    application: at(deployment, "spec.template.spec.containers.0"),
  };
}

function scaledDrain(config: string): string[] {
  const loaded = loadSettings({ file: config, env: {}, cwd: ".", overrides: [] });
  if (!loaded.ok) throw new Error(JSON.stringify(loaded.errors));
  const { delayMs, timeoutMs } = loaded.settings.drain;
  return [`drain.delay=${Math.round(delayMs / delayScale)}ms`, `drain.timeout=${Math.round(timeoutMs / scale)}ms`];
}

/** Asks as the probe says, until it succeeds once. */
async function probe(gateway: GatewayProcess, description: unknown): Promise<void> {
  const { periodSeconds, failureThreshold } = description as Record<string, number>;
  for (let failures = 0; failures < Number(failureThreshold); failures += 1) {
    const asked = get({ host: "127.0.0.1", port: gateway.adminPort, path: String(at(description, "httpGet.path")) });
    const [response] = await within("an answer to the probe", once(asked, "response"));
    response.resume();
    if (response.statusCode === 200) return;
    await sleep((Number(periodSeconds) * 1_000) / scale);
  }
  throw new Error(`the probe failed ${failureThreshold} times`);
}

/** In the container the gateway is process 1. What still runs when the container ends, ends with it. */
async function runExec([command, ...args]: readonly string[], gateway: GatewayProcess): Promise<void> {
  if (command !== "node") throw new Error(`the image has no ${command}`);
  const here = args.map((arg) => arg.replace("process.kill(1,", `process.kill(${gateway.pid},`));
  const { exited, end } = startProcessGroup(process.execPath, here, { stdout: "inherit", stderr: "inherit" });
  const outlives = await Promise.race([exited.then(() => false), gateway.exited.then(() => true)]);
  // Kubernetes would send its own signal then, and a second one cuts the drain short.
  if (!outlives) throw new Error("the hook returned before the gateway had ended");
  await end();
}
