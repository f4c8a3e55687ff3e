// What is off costs nothing: no module of the gRPC port is loaded until it is configured.
import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";

const root = join(import.meta.dirname, "../../..");

/** The modules of src/ext-auth/grpc that a process has loaded once the gateway runs. */
async function loadedModules(enabled: boolean): Promise<string[]> {
  const script = `
    import { registerHooks } from "node:module";
    const loaded = [];
    registerHooks({ load(url, context, next) { if (url.includes("/src/ext-auth/grpc/")) loaded.push(url.split("/").pop()); return next(url, context); } });
    const { startGateway } = await import(${JSON.stringify(join(root, "src/gateway/gateway.ts"))});
    const { loadSettings, packagedConfigFile } = await import(${JSON.stringify(join(root, "src/config/load.ts"))});
    const { systemClock } = await import(${JSON.stringify(join(root, "src/core/clock.ts"))});
    const { createLog } = await import(${JSON.stringify(join(root, "src/telemetry/log.ts"))});
    const { settings } = loadSettings({ file: packagedConfigFile, env: {}, cwd: ".", overrides: [] });
    const free = { host: "127.0.0.1", port: 0 };
    const grpc = ${enabled} ? { ...free, maxConnections: 1 } : null;
    const gateway = await startGateway(
      { ...settings, listen: { ...settings.listen, ...free }, admin: { ...settings.admin, ...free }, extAuth: { ...settings.extAuth, trustedCallers: ["127.0.0.1"], grpc } },
      { clock: systemClock, log: createLog({ level: "silent", clock: systemClock, destination: { write() {}, flush() {} } }), droppedLogLines: () => 0, version: "", nodeVersion: "" },
    );
    console.log(JSON.stringify(loaded));
    await gateway.drain();
  `;
  const { stdout } = await promisify(execFile)(process.execPath, ["--input-type=module", "-e", script], { cwd: root });
  return JSON.parse(stdout);
}

test("the modules of the gRPC port are loaded where it is on, and nowhere else", async () => {
  const [off, on] = await Promise.all([loadedModules(false), loadedModules(true)]);
  expect(off).toEqual([]);
  expect(on).toContain("start.ts");
});
