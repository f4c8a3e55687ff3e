// The configuration of the demo, in a folder that exists as long as the demo runs, so that it can be changed and loaded again. Of the
// tokens it has the digests alone.
import { hash, randomBytes } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { partner } from "./habits.ts";

export interface DemoFiles {
  readonly configFile: string;
  /** Of this run, for the admin API. */
  readonly adminToken: string;
  remove(): void;
}

interface Wanted {
  readonly port: number;
  readonly adminPort: number;
  readonly upstreamUrl: string;
  readonly logsRequests: boolean;
}

export function writeDemoFiles(wanted: Wanted): DemoFiles {
  // Only its owner can open it.
  const folder = mkdtempSync(join(tmpdir(), "headgate-demo-"));
  const adminToken = randomBytes(32).toString("base64url");
  const configFile = join(folder, "headgate.yaml");
  const remove = (): void => rmSync(folder, { recursive: true, force: true });
  try {
    writeFileSync(join(folder, "admin-tokens.txt"), `${hash("sha256", adminToken)}  write  # demo\n`);
    writeFileSync(join(folder, "tokens.txt"), `${hash("sha256", partner)}  # ${partner}\n`);
    writeFileSync(configFile, configuration(wanted));
  } catch (error) {
    remove();
    throw error;
  }
  return { configFile, adminToken, remove };
}

function configuration({ port, adminPort, upstreamUrl, logsRequests }: Wanted): string {
  return `# The configuration of this demo. It is loaded again when it changes, and removed when the demo ends.
listen: { host: 127.0.0.1, port: ${port} }
admin: { host: 127.0.0.1, port: ${adminPort}, tokensFile: admin-tokens.txt }
upstream: { url: "${upstreamUrl}" }
policies:
  - { name: per-ip, who: others, limit: 100, window: 60s }
  - name: per-token
    who: verified
    limit: 100
    window: 60s
    key: [token]
    overrides: [{ token: ${partner}, limit: 600 }]
auth:
  mode: tokens
  tokensFile: tokens.txt
  rules: [{ paths: [/v2/], mode: presence }]
quota: { path: /quota }
log: { access: ${logsRequests} }
`;
}
