// `headgate demo`: starts the reference backend and the gateway in front of it on loopback, with the packaged
// configuration and `quota.path`, and prints four requests to try. Ctrl-C ends the demo.
import { loadSettings, packagedConfigFile } from "../config/load.ts";
import type { Settings } from "../core/settings.ts";
import { type FinanceBackend, startFinanceBackend } from "../finance-backend/server.ts";
import type { Gateway } from "../gateway/gateway.ts";
import type { DemoArguments } from "./arguments.ts";
import { type CommandIo, isSignalExitCode } from "./io.ts";
import { type BuildInfo, serve } from "./start.ts";

export async function run(args: DemoArguments, io: CommandIo, build: BuildInfo): Promise<number> {
  // The environment is ignored, so that the demo is the same everywhere.
  const loaded = loadSettings({ file: packagedConfigFile, env: {}, cwd: io.cwd, overrides: [] });
  if (!loaded.ok) throw new Error("the packaged configuration is not valid");
  const backend = await startFinanceBackend({
    host: "127.0.0.1",
    port: 0,
    database: null,
    onFailure: (error) => io.err(`finance-backend: ${String(error)}\n`),
  });
  const settings = demoSettings(loaded.settings, args, backend.url);
  let isWaiting = true;
  try {
    const code = await serve(settings, io, build, { onReady: (gateway) => io.out(introduction(gateway, backend)) });
    // After a second signal the backend is not waited for either.
    isWaiting = !isSignalExitCode(code);
    return code;
  } finally {
    if (isWaiting) await backend.close();
  }
}

function demoSettings(settings: Settings, { port, adminPort }: DemoArguments, upstreamUrl: string): Settings {
  return {
    ...settings,
    listen: { ...settings.listen, host: "127.0.0.1", port, proxyProtocol: false, tls: null },
    admin: { ...settings.admin, host: "127.0.0.1", port: adminPort },
    workers: 1,
    upstream: { ...settings.upstream, url: upstreamUrl },
    quota: { path: "/quota" },
  };
}

function introduction({ traffic, admin }: Gateway, backend: FinanceBackend): string {
  const url = `http://127.0.0.1:${traffic.port}`;
  return `
Headgate is running.
  gateway   ${url}      100 requests a minute for each address, bearer token required
  admin     http://127.0.0.1:${admin.port}      /metrics  /livez  /readyz
  backend   ${backend.url}     the reference finance API, only for the gateway

Try:
  curl -i -H 'Authorization: Bearer x' '${url}/v2/transactions?limit=5'
  curl -i ${url}/v2/me
  for i in $(seq 101); do curl -s -o /dev/null -w '%{http_code} ' -H 'Authorization: Bearer x' ${url}/v2/me; done; echo
  curl ${url}/quota

The first command gets five records with the six rate-limit headers, the second a 401. The loop ends with 429. The last
one says what is left, and spends nothing.
Ctrl-C ends the demo.

`;
}
