// A real program with files of its own, as a process that listens on a port of its own; and how configurations of nginx and
// HAProxy begin.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import type { Cleanup } from "../support/cleanup.ts";
import { eventually } from "../support/eventually.ts";
import { freePort } from "../support/free-port.ts";
import { startProcessGroup } from "../support/process-group.ts";
import { accepts } from "./fuzz/backends/backend.ts";

export interface Program {
  readonly command: string;
  readonly args: (folder: string, port: number) => readonly string[];
  /** Written into the folder before the start. */
  readonly files: (folder: string, port: number) => Readonly<Record<string, string>>;
}

interface RunningProgram {
  readonly port: number;
  readonly folder: string;
  /** What it has written to its standard output and its standard error. */
  output(): string;
}

/** Resolves when the program listens. It ends with its workers, which outlive a killed master of nginx or HAProxy. */
export async function startProgram(cleanup: Cleanup, { command, args, files }: Program): Promise<RunningProgram> {
  const folder = mkdtempSync(join(tmpdir(), "headgate-program-"));
  const port = await freePort();
  for (const [name, text] of Object.entries(files(folder, port))) {
    mkdirSync(dirname(join(folder, name)), { recursive: true });
    writeFileSync(join(folder, name), text);
  }
  const env = { PATH: process.env["PATH"] ?? "", HOME: folder };
  const { child, end } = startProcessGroup(command, args(folder, port), { env });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (data: Buffer) => (output += data.toString()));
  cleanup(async () => {
    await end();
    rmSync(folder, { recursive: true, maxRetries: 3 });
  });
  const listens = (): Promise<boolean> => {
    if (child.exitCode !== null) throw new Error(`${command} did not start: ${output}`);
    return accepts(port);
  };
  await eventually(`${command} listens`, listens, 20_000);
  return { port, folder, output: () => output };
}

/** A whole configuration with these directives for HTTP. */
export const nginxFrame = (folder: string, http: string): string => `
  ${process.getuid?.() === 0 ? "user root;" : ""} # Its workers keep large bodies in this folder.
  daemon off;
  worker_processes 1;
  pid ${folder}/pid;
  events { worker_connections 256; }
  http {
    access_log off;
    ${["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map((use) => `${use}_temp_path ${folder}/${use};`).join(" ")}
    ${http}
  }`;

export const nginxArgs = (folder: string): readonly string[] => [
  ...["-c", join(folder, "nginx.conf"), "-p", folder, "-e", join(folder, "errors")],
];

/** HAProxy in front of one server. `defaults`, `frontend`, `backend`: further lines of these sections. */
export function haproxyProgram(
  server: string,
  more: { readonly defaults?: string; readonly frontend?: string; readonly backend?: string } = {},
): Program {
  const { defaults = "", frontend = "", backend = "" } = more;
  return {
    command: "haproxy",
    args: (folder) => ["-db", "-f", join(folder, "haproxy.cfg")],
    files: (_folder, port) => ({
      "haproxy.cfg": `
global
  nbthread 1
defaults
  mode http
  timeout client 10s
  timeout connect 5s
  timeout server 10s
${defaults}
frontend edge
  bind 127.0.0.1:${port}
${frontend}
  default_backend gateway
backend gateway
${backend}
  server gateway ${server}
`,
    }),
  };
}
