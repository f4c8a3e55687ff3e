// `::` as the host of each listener: both families on one socket, as a cluster with IPv6 alone needs it; also on a host where
// IPv6 is turned off. In a network namespace of its own, so that nothing of the machine is changed.
import { spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { main, run } from "../commands/command-process.ts";
import { scratchFolder } from "../support/scratch.ts";

const config = `
listen: { host: "::", port: 8080 }
admin: { host: "::", port: 9464 }
extAuth: { http: { enabled: true, host: "::", port: 9465 }, trustedCallers: [127.0.0.0/8, "fd00:10:244::/56"] }
clientAddress: { trustedProxies: [10.244.0.0/16, "fd00:10:244::/56"] }
readiness: { path: /healthz }
`;

const hosts = ["127.0.0.1", "[::1]"];
const asked = hosts.flatMap((host) => [
  `${host}:8080/healthz`,
  `${host}:9464/readyz`,
  `${host}:9465/`,
  `${host}:8080/x`,
]);
/** Prints the status of each, 0 for a refused connection. */
const ask = `for (const at of ${JSON.stringify(asked)})
  console.log(await fetch("http://" + at).then(({ status }) => status, () => 0))`;

test.each([
  ["on", 0, [200, 200, 404, 404, 200, 200, 403, 404]],
  ["turned off", 1, [200, 200, 404, 404, 0, 0, 0, 0]],
])("a start with :: serves both families where IPv6 is %s", async (_, isOff, statuses) => {
  const folder = scratchFolder(onTestFinished);
  writeFileSync(join(folder, "headgate.yaml"), config);
  const off = ["all", "lo"].map((name) => `net.ipv6.conf.${name}.disable_ipv6=${isOff}`).join(" ");
  const script = `busybox ip link set lo up && sysctl -qw ${off} && exec "$0" "$@" --config '${folder}/headgate.yaml'`;
  const started = run("unshare", ["--net", "bash", "-c", script, process.execPath, main, "start"]);
  await started.until(/"listener":"ext-auth"/);
  const inside = ["--net", "--target", `${started.process.pid}`, process.execPath, "--input-type=module", "-e", ask];
  const { stdout } = spawnSync("nsenter", inside, { encoding: "utf8" });
  expect(stdout.trim().split("\n").map(Number)).toEqual(statuses);
  // An IPv4 peer is the same client on such a listener as on another one.
  await started.until(/"client":"127\.0\.0\.1"/);
  if (isOff === 0) await started.until(/"client":"::\/64"/);
  started.process.kill("SIGTERM");
  expect(await started.exited).toBe(0);
});

test("an address of IPv6 that the host has not is named in brackets", async () => {
  const script = `sysctl -qw net.ipv6.conf.lo.disable_ipv6=1 && exec "$0" "$@" --host ::1`;
  const started = run("unshare", ["--net", "bash", "-c", script, process.execPath, main, "start"]);
  expect(await started.exited).toBe(69);
  expect(started.output.err).toBe(
    "headgate: cannot listen on [::1]:8080 (traffic): this machine has no such address\n",
  );
});
