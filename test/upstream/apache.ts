// Debian's Apache as an upstream, with a configuration of a test's own.
import { chmodSync, mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { type Backend, isInstalled, startBackend } from "../conformance/fuzz/backends/backend.ts";
import type { Cleanup } from "../support/cleanup.ts";

const modules = "/usr/lib/apache2/modules";

export const hasApache = isInstalled("/usr/sbin/apache2");

interface ApachePlan {
  readonly modules: readonly string[];
  /** Contents by path. Apache, which is another user, may write into the folders. */
  readonly files?: Readonly<Record<string, string>>;
  readonly prepare?: (folder: string) => void;
  readonly config: (folder: string, port: number) => string;
}

export async function startApache(cleanup: Cleanup, plan: ApachePlan): Promise<Backend> {
  const load = ["mpm_event", "authz_core", ...plan.modules].map(
    (name) => `LoadModule ${name}_module ${modules}/mod_${name}.so`,
  );
  const started = await startBackend({
    command: "/usr/sbin/apache2",
    args: (folder) => ["-f", join(folder, "config"), "-DFOREGROUND"],
    files(folder, port) {
      chmodSync(folder, 0o755);
      for (const [path, text] of Object.entries(plan.files ?? {})) {
        const parent = join(folder, dirname(path));
        mkdirSync(parent, { recursive: true });
        chmodSync(parent, 0o777);
        writeFileSync(join(folder, path), text);
      }
      plan.prepare?.(folder);
      const common = `
ServerRoot ${folder}
ServerName backend.test
PidFile ${folder}/pid
ErrorLog ${folder}/errors
DefaultRuntimeDir ${folder}
Listen 127.0.0.1:${port}
User www-data
Group www-data
StartServers 1
ServerLimit 1
ThreadsPerChild 16
MaxRequestWorkers 16
${load.join("\n")}
`;
      return { config: common + plan.config(folder, port) };
    },
    logsToOutput: false,
    shownAs: (sent) => sent,
    readLine: () => ({ id: "", port: 0, line: null, fields: [], body: null }),
  });
  cleanup(() => started.remove());
  return started;
}
