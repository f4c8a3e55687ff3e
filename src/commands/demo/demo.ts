// `headgate demo`: starts the reference backend and the gateway in front of it on loopback, with simulated clients, and prints the
// address of the console and what to try. `--quiet` leaves the clients out. Ctrl-C ends the demo, and nothing of it stays.

import { hash, randomBytes } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { SignInCode } from "../../admin/sign-in-code.ts";
import { systemClock } from "../../core/clock.ts";
import { type FinanceBackend, startFinanceBackend } from "../../finance-backend/server.ts";
import type { Gateway } from "../../gateway/gateway.ts";
import type { DemoArguments } from "../arguments.ts";
import { type CommandIo, isSignalExitCode } from "../io.ts";
import { settingsSource } from "../load-config.ts";
import { type BuildInfo, serve } from "../start.ts";
import { habits, hasAddress, partner, startSimulatedClients } from "./simulated-clients.ts";

export async function run(args: DemoArguments, io: CommandIo, build: BuildInfo): Promise<number> {
  const backend = await startFinanceBackend({
    host: "127.0.0.1",
    port: 0,
    database: null,
    onFailure: (error) => io.err(`finance-backend: ${String(error)}\n`),
  });
  let isWaiting = true;
  try {
    const code = await withFiles(args, backend, io, build);
    // After a second signal the backend is not waited for either.
    isWaiting = !isSignalExitCode(code);
    return code;
  } finally {
    if (isWaiting) await backend.close();
  }
}

async function withFiles(
  args: DemoArguments,
  backend: FinanceBackend,
  io: CommandIo,
  build: BuildInfo,
): Promise<number> {
  const isAlone = args.isQuiet || !(await haveAddresses(io));
  // Without a handler, a signal would end the process before the files are removed. Until `serve` has one of its own, nothing is
  // awaited, so that it gets the signal, too.
  io.onSignal(() => {});
  const files = writeDemoFiles({ ...args, upstreamUrl: backend.url, logsRequests: isAlone });
  try {
    // The environment is ignored, so that the demo is the same everywhere.
    const source = settingsSource({ file: files.configFile, overrides: [] }, files.configFile, { ...io, env: {} });
    const loaded = source.load(true);
    if (!loaded.ok) throw new Error(`the configuration of the demo is not valid: ${loaded.errors.join("; ")}`);
    const signIn = new SignInCode(files.adminToken, systemClock.monotonicMs);
    return await serve(loaded.settings, io, build, {
      ...{ source, signIn },
      // The demo ends with its terminal.
      reloadsOnHangUp: false,
      onReady(gateway) {
        io.out(introduction(gateway, backend, { ...files, code: signIn.text }, isAlone));
        if (!isAlone) startClients(gateway, io);
      },
    });
  } finally {
    files.remove();
  }
}

function startClients(gateway: Gateway, io: CommandIo): void {
  const clients = startSimulatedClients(urlOf(gateway.traffic.port), habits, ({ name }, error) =>
    io.err(`headgate demo: the client "${name}": ${error.message}\n`),
  );
  void gateway.drainBegan.then(() => clients.stop());
}

async function haveAddresses(io: CommandIo): Promise<boolean> {
  for (const { address } of habits) {
    if (await hasAddress(address)) continue;
    io.err(`headgate demo: this machine has no address ${address}, so there are no simulated clients\n`);
    return false;
  }
  return true;
}

const urlOf = (port: number): string => `http://127.0.0.1:${port}`;

type Introduced = DemoFiles & { readonly code: string };

function introduction(gateway: Gateway, backend: FinanceBackend, files: Introduced, isAlone: boolean): string {
  const [url, adminUrl] = [urlOf(gateway.traffic.port), urlOf(gateway.admin.port)];
  return `
Headgate is running.
  console   ${adminUrl}/console/#code=${files.code}
  token     ${files.adminToken}     of this run: the link of the console signs in once, within a minute
  gateway   ${url}      100 requests a minute for each address, bearer token required
  admin     ${adminUrl}      /metrics  /livez  /readyz, and with the token /api/
  backend   ${backend.url}     the reference finance API, only for the gateway
  config    ${files.configFile}     loaded again when it changes, and removed at the end
${isAlone ? "" : aboutClients()}
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

function aboutClients(): string {
  const lines = habits.map(({ name, address, does }) => `  ${address}  ${name.padEnd(8)}  ${does}`);
  return `
Simulated clients use it:
${lines.join("\n")}

Under Clients of the console:
  Open 127.0.1.15: its window slides, and it is refused only until the next request leaves the window.
  Open 127.0.1.12 while it is refused, about half of each minute, and forgive it: its next request is admitted.
  Open 127.0.1.13 and block it for 5 minutes: it gets 403 in place of 429, and is listed under Rules.
`;
}

/**
 * The configuration of the demo, in a folder that exists as long as the demo runs, so that it can be changed and loaded
 * again. Of the tokens it has the digests alone.
 */
export interface DemoFiles {
  readonly configFile: string;
  /** Of this run, for the admin API. */
  readonly adminToken: string;
  remove(): void;
}

interface DemoSettings {
  readonly port: number;
  readonly adminPort: number;
  readonly upstreamUrl: string;
  readonly logsRequests: boolean;
}

export function writeDemoFiles(wanted: DemoSettings): DemoFiles {
  // Only its owner can open it.
  const folder = mkdtempSync(join(tmpdir(), "headgate-demo-"));
  const adminToken = randomBytes(32).toString("base64url");
  const configFile = join(folder, "headgate.yaml");
  const remove = (): void => rmSync(folder, { recursive: true, force: true });
  try {
    writeFileSync(join(folder, "admin-tokens.txt"), `${hash("sha256", adminToken)}  write  # demo\n`);
    writeFileSync(configFile, configuration(wanted));
  } catch (error) {
    remove();
    throw error;
  }
  return { configFile, adminToken, remove };
}

function configuration({ port, adminPort, upstreamUrl, logsRequests }: DemoSettings): string {
  return `# The configuration of this demo. It is loaded again when it changes, and removed when the demo ends.
listen: { host: 127.0.0.1, port: ${port} }
admin: { host: 127.0.0.1, port: ${adminPort}, tokensFile: admin-tokens.txt }
upstream: { url: "${upstreamUrl}" }
policies:
  - { name: per-ip, limit: 100, window: 60s, overrides: [{ client: ${partner}, limit: 600 }] }
quota: { path: /quota }
log: { access: ${logsRequests} }
`;
}
