// What can be said of the image without building it (.ci/image builds and runs it): its label, its user, its health check,
// and that nothing in it is for one platform alone.
import { execFile } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import packageJson from "../../package.json" with { type: "json" };
import lock from "../../package-lock.json" with { type: "json" };
import { useCleanup } from "../support/cleanup.ts";
import { startTestGateway } from "../support/gateway.ts";
import { scratchFolder } from "../support/scratch.ts";
import { deadPort, deadUrl } from "../support/unavailable.ts";
import { startRawUpstream, startUpstream } from "../support/upstream.ts";

const dockerfile = readFileSync(new URL("../../Dockerfile", import.meta.url), "utf8");

test("the label has the version of the package, and the user is a number that is not root's", () => {
  expect(/image\.version="([^"]+)"/.exec(dockerfile)?.[1]).toBe(packageJson.version);
  const last = dockerfile.slice(dockerfile.lastIndexOf("\nFROM "));
  expect(/^USER (\d+):\d+$/m.exec(last)?.[1]).toBe("1000");
});

test("both stages take commit and date, and each workflow that builds the image passes them", () => {
  for (const name of ["COMMIT", "DATE"]) {
    const [, ...stages] = dockerfile.split("\nFROM ");
    expect(stages.map((stage) => stage.includes(`\nARG ${name}\n`))).toEqual([true, true]);
    for (const workflow of ["test", "release"]) {
      const text = readFileSync(new URL(`../../.github/workflows/${workflow}.yaml`, import.meta.url), "utf8");
      const builds = text.replaceAll("\\\n", "").match(/docker (?:buildx )?build .*/g) ?? [];
      expect(builds.map((build) => build.includes(`--build-arg ${name}="$(git `))).toEqual([true]);
    }
  }
});

test("every folder that is written can be written by group 0, which any user of such a platform has", () => {
  const folders = /^RUN install -d -m 770 -o 1000 -g 0 (.*)$/m.exec(dockerfile)?.[1]?.split(" ") ?? [];
  const named = [...dockerfile.matchAll(/^(?:VOLUME |ENV HEADGATE_ADMIN_SOCKET=)(\/[\w/]+?)(?:\/admin\.sock)?$/gm)];
  expect(folders).toEqual(expect.arrayContaining(named.map(([, folder]) => folder)));
  expect(folders).toContain("/var/lib/headgate");
});

test("no production dependency has native code, an install script or a platform of its own", () => {
  const packages: Readonly<Record<string, object>> = lock.packages;
  const production = Object.entries(packages).filter(([path, one]) => path !== "" && !("dev" in one));
  expect(production.length).toBeGreaterThan(20);
  const bound = production.filter(([, one]) => "hasInstallScript" in one || "os" in one || "cpu" in one);
  expect(bound.map(([path]) => path)).toEqual([]);
});

describe("the health check", () => {
  const cleanup = useCleanup();
  const folder = scratchFolder(afterAll);
  const [command = "", ...args]: string[] = JSON.parse(/^HEALTHCHECK .*CMD (\[.*\])$/m.exec(dockerfile)?.[1] ?? "[]");
  const script = readFileSync(new URL("../../deploy/image/health-check", import.meta.url), "utf8");

  interface Surroundings {
    readonly env?: NodeJS.ProcessEnv;
    /** The command line of process 1. */
    readonly commandLine?: readonly string[];
  }

  /**
   * Runs it as the image does, with the command line in a file in place of process 1's. Resolves with the exit code. `timeout`
   * replaces its 2 s, which a busy machine may need to start it.
   */
  function check({ env = {}, commandLine = [] }: Surroundings, timeout = "15"): Promise<number> {
    writeFileSync(
      join(folder, "cmdline"),
      ["node", "main.js", "start", ...commandLine].map((text) => `${text}\0`).join(""),
    );
    const here = script.replace("/proc/1/cmdline", join(folder, "cmdline"));
    expect(here).not.toBe(script);
    writeFileSync(join(folder, "health-check"), here, { mode: 0o755 });
    const path = args.map((arg) => (arg === "2" ? timeout : arg.replace("/headgate/", `${folder}/`)));
    return new Promise((resolve) => {
      execFile(command, path, { env: { PATH: "/usr/bin:/bin", ...env } }, (error) => resolve(Number(error?.code ?? 0)));
    });
  }

  function fileWith(text: string): string {
    const file = join(folder, "headgate.yaml");
    writeFileSync(file, text);
    return file;
  }

  test("is given less time by itself than by the container engine, and stands in the image", () => {
    expect([command, ...args]).toEqual(["timeout", "2", "/headgate/health-check"]);
    expect(dockerfile).toMatch(/^HEALTHCHECK .*--timeout=3s/m);
    expect(dockerfile).toContain("COPY deploy/image/health-check ./");
  });

  test("finds the admin listener where the gateway takes it from", async () => {
    const gateway = await startTestGateway({
      upstreamUrl: deadUrl,
      overrides: { admin: { host: "127.0.0.2", port: 0 } },
    });
    cleanup(() => gateway.close());
    const { port } = gateway.admin;
    const host = "127.0.0.2";
    const wrong = { HEADGATE_ADMIN_HOST: "127.0.0.3", HEADGATE_ADMIN_PORT: `${deadPort}` };
    const block = `listen:\n  port: 1\nadmin:\n  # port: 2\n  host: ${host}\n  port: ${port} # metrics\nlog:\n  port: 3\n`;
    const inBraces = `listen: { port: 1 }\nadmin: { port: ${port}, host: "${host}" }\n`;
    const found: Surroundings[] = [
      { env: { HEADGATE_ADMIN_HOST: host, HEADGATE_ADMIN_PORT: `${port}` } },
      { env: wrong, commandLine: ["--admin-host", host, "--admin-port", `${port}`] },
      { env: wrong, commandLine: [`--admin-host=${host}`, `--admin-port=${port}`, "--port", "1"] },
      { env: wrong, commandLine: ["--set", `admin.host=${host}`, `--set=admin.port=${port}`] },
    ];
    for (const surroundings of found) expect([surroundings, await check(surroundings)]).toEqual([surroundings, 0]);
    for (const text of [block, inBraces]) {
      const file = fileWith(text);
      expect([text, await check({ env: { HEADGATE_CONFIG: file } })]).toEqual([text, 0]);
      expect(await check({ env: { HEADGATE_CONFIG: "/nowhere" }, commandLine: ["--config", file] })).toBe(0);
      expect(await check({ env: { ...wrong, HEADGATE_CONFIG: file } }), "the environment counts before the file").toBe(
        1,
      );
    }
  });

  test("fails where nobody listens, on another answer than 200, and on none in time", async () => {
    const env = { HEADGATE_ADMIN_HOST: "127.0.0.1" };
    const portOf = (url: string): string => new URL(url).port;
    expect(await check({ env: { ...env, HEADGATE_ADMIN_PORT: `${deadPort}` } })).toBe(1);
    const sick = cleanup(await startUpstream((_req, res) => void res.writeHead(503).end()));
    expect(await check({ env: { ...env, HEADGATE_ADMIN_PORT: portOf(sick.url) } })).toBe(1);
    expect(sick.received[0]?.target).toBe("/livez");
    const silent = cleanup(await startRawUpstream(() => {}));
    expect(await check({ env: { ...env, HEADGATE_ADMIN_PORT: portOf(silent.url) } }, "0.2")).toBe(124);
  });
});
