// The life of a pod of the chart, from what Helm renders: the probes ask what the gateway answers, the script of `helm test` tells
// ready from not ready, and the end fits into the grace period. A process is the container.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { useCleanup } from "../support/cleanup.ts";
import { eventually } from "../support/eventually.ts";
import { type GatewayProcess, startGatewayProcess } from "../support/gateway-process.ts";
import { scratchFolder } from "../support/scratch.ts";
import { startUpstream } from "../support/upstream.ts";
import { template } from "./chart.ts";
import { cannotRender } from "./kubernetes-tools.ts";
import { at, only } from "./manifests.ts";
import type { Mapping } from "./shape.ts";

const cleanup = useCleanup();

/** The container's process, on other ports and in other folders; the end is shorter. */
async function startContainer(): Promise<GatewayProcess> {
  const manifests = template();
  const folder = scratchFolder(cleanup);
  const config = join(folder, "headgate.yaml");
  writeFileSync(config, String((only(manifests, "ConfigMap")["data"] as Mapping)["headgate.yaml"]));
  const variables = at(container(), "env") as { name: string; value: string }[];
  const env = Object.fromEntries(variables.map(({ name, value }) => [name, value]));
  const upstream = cleanup(await startUpstream((_req, res) => void res.end()));
  const here = [`counters.snapshot.path=${join(folder, "counters")}`, `admin.socket=${join(folder, "admin.sock")}`];
  return startGatewayProcess(cleanup, upstream.url, [...here, "drain.delay=10s", "drain.timeout=5s"], { config, env });
}

const workload = () => only(template(), "Deployment");
const container = () => at(workload(), "spec.template.spec.containers.0");

async function probe(gateway: GatewayProcess, name: string): Promise<number> {
  const { status } = await fetch(`http://127.0.0.1:${gateway.adminPort}${at(container(), `${name}.httpGet.path`)}`);
  return status;
}

/** Runs the script of the pod of `helm test`, with the process in place of the two Services. */
async function helmTest(gateway: GatewayProcess): Promise<number> {
  const command = at(only(template({}, "headgate", true), "Pod"), "spec.containers.0.command") as string[];
  const [program, flag, script = ""] = command;
  expect([program, flag]).toEqual(["node", "-e"]);
  const local = script
    .replace('connect(80, "headgate"', `connect(${gateway.port}, "127.0.0.1"`)
    .replace("headgate-admin:9464", `127.0.0.1:${gateway.adminPort}`);
  expect(local).not.toMatch(/headgate|9464/);
  const [code] = await once(spawn(process.execPath, ["-e", local], { stdio: "ignore" }), "exit");
  return code;
}

test.skipIf(cannotRender)("is ready by its probes and by helm test, and ends within the grace period", async () => {
  const gateway = await startContainer();
  for (const name of ["startupProbe", "readinessProbe", "livenessProbe"]) {
    expect([name, await probe(gateway, name)]).toEqual([name, 200]);
  }
  expect(await helmTest(gateway)).toBe(0);
  gateway.signal("SIGTERM");
  await eventually("readiness fails", async () => (await probe(gateway, "readinessProbe")) === 503);
  // Alive, so that Kubernetes does not end it before its time.
  expect(await probe(gateway, "livenessProbe")).toBe(200);
  expect(await helmTest(gateway), "of a gateway that is not ready").not.toBe(0);
  expect(await gateway.exited).toEqual({ code: 0, signal: null });
  expect(await helmTest(gateway), "where nobody listens").not.toBe(0);
});

test.skipIf(cannotRender)(
  "the drain fits into the grace period, and lasts longer than readiness takes to be noticed",
  () => {
    const data = at(only(template(), "ConfigMap"), "data") as Mapping;
    const [, delay, timeout] = /delay: (\d+)s\n *timeout: (\d+)s/.exec(String(data["headgate.yaml"])) ?? [];
    const graceSeconds = Number(at(workload(), "spec.template.spec.terminationGracePeriodSeconds"));
    expect(graceSeconds).toBeGreaterThanOrEqual(Number(delay) + Number(timeout) + 10);
    const { periodSeconds, failureThreshold } = at(container(), "readinessProbe") as Record<string, number>;
    expect(Number(delay)).toBeGreaterThan(Number(periodSeconds) * Number(failureThreshold));
  },
);
