// The ingresses of deploy/ingress as processes, each with its shipped file: nothing in it is changed but the addresses, one word
// where a test wants the other choice, and how long a check may take. A file in which one of these cannot be found is an error.
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { Cleanup } from "../../support/cleanup.ts";
import { isInstalled } from "../fuzz/backends/backend.ts";
import { nginxArgs, nginxFrame, startProgram } from "../programs.ts";

export interface Ingress {
  readonly name: string;
  readonly debianPackage: string;
  readonly isInstalled: boolean;
  /** How the wire spells a field's name. */
  readonly spelling: (name: string) => string;
  start(cleanup: Cleanup, around: Surroundings): Promise<RunningIngress>;
}

export interface RunningIngress {
  readonly port: number;
  /** What an operator would find in its log as an error. */
  errors(): string[];
}

export interface Surroundings {
  readonly extAuthPort: number;
  readonly backendPort: number;
  /** What is to happen while the gateway does not answer. */
  readonly whenDown: "closed" | "open";
  /**
   * For a test about an ingress that waits for a check no longer than its shipped file says. Otherwise it waits for as long as a
   * machine may stall: the gateway, its backend and the clients are one process.
   */
  readonly hasShippedTimeout?: boolean;
}

/** With the folder of its files, and the port that it is to listen on. */
type Placed = Surroundings & { readonly port: number; readonly folder: string };

export interface Plan {
  readonly command: string;
  readonly args: (folder: string) => readonly string[];
  /** Of deploy/ingress, by the name each has in the folder. */
  readonly files: Readonly<Record<string, string>>;
  /** What stands in the files, and what has to stand there in a test. */
  readonly changes: (around: Placed) => [string, string][];
  /** Where they say how long a check may take, and the same with a longer time. */
  readonly timeouts: [string, string][];
  /** Beside the shipped files. */
  readonly frame?: (around: Placed) => Readonly<Record<string, string>>;
  /** Whether a line of its output, or of the file `errors`, is an error. */
  readonly isError: (line: string) => boolean;
}

export const shipped = (file: string): string =>
  readFileSync(new URL(`../../../deploy/ingress/${file}`, import.meta.url), "utf8");

export const nginx: Plan = {
  command: "nginx",
  args: nginxArgs,
  files: { "headgate.conf": "nginx/headgate.conf" },
  changes: ({ port, extAuthPort, backendPort, whenDown }) => [
    ["listen 8080;", `listen 127.0.0.1:${port};`],
    ["server 127.0.0.1:9465;", `server 127.0.0.1:${extAuthPort};`],
    ["server 127.0.0.1:3000;", `server 127.0.0.1:${backendPort};`],
    ["default closed;", `default ${whenDown};`],
  ],
  timeouts: [
    ["proxy_connect_timeout 1s;", "proxy_connect_timeout 20s;"],
    ["proxy_read_timeout 1s;", "proxy_read_timeout 20s;"],
  ],
  frame: ({ folder }) => ({ "nginx.conf": nginxFrame(folder, `include ${folder}/headgate.conf;`) }),
  isError: (line) => / \[(?:error|crit|alert|emerg)\] /.test(line),
};

const caddy: Plan = {
  command: "caddy",
  args: (folder) => ["run", "--config", join(folder, "Caddyfile"), "--adapter", "caddyfile"],
  files: { Caddyfile: "caddy/Caddyfile" },
  changes: ({ port, extAuthPort, backendPort, whenDown }) => [
    // Its admin endpoint would be on a port of its own.
    ["(headgate_down_closed) {", "{\n\tadmin off\n\tauto_https off\n}\n\n(headgate_down_closed) {"],
    [":8080 {", `:${port} {\n\tbind 127.0.0.1`],
    ["reverse_proxy 127.0.0.1:9465 {", `reverse_proxy 127.0.0.1:${extAuthPort} {`],
    ["reverse_proxy 127.0.0.1:3000 {", `reverse_proxy 127.0.0.1:${backendPort} {`],
    ["reverse_proxy @undecided 127.0.0.1:3000", `reverse_proxy @undecided 127.0.0.1:${backendPort}`],
    ["import headgate_down_closed", `import headgate_down_${whenDown}`],
  ],
  timeouts: [
    ["dial_timeout 1s", "dial_timeout 20s"],
    ["response_header_timeout 1s", "response_header_timeout 20s"],
  ],
  isError: (line) => line.includes('"level":"error"'),
};

const haproxy: Plan = {
  command: "haproxy",
  args: (folder) => ["-db", "-f", join(folder, "haproxy.cfg")],
  files: { "haproxy.cfg": "haproxy/haproxy.cfg", "headgate.lua": "haproxy/headgate.lua" },
  changes: ({ port, extAuthPort, backendPort, whenDown, folder }) => [
    ["lua-load /etc/haproxy/headgate.lua", `lua-load ${join(folder, "headgate.lua")}`],
    ["bind :8080", `bind 127.0.0.1:${port}`],
    ["lua.headgate 127.0.0.1:9465 closed", `lua.headgate 127.0.0.1:${extAuthPort} ${whenDown}`],
    ["server api 127.0.0.1:3000", `server api 127.0.0.1:${backendPort}`],
  ],
  timeouts: [["local timeout_seconds = 1", "local timeout_seconds = 20"]],
  isError: (line) => /^\[(?:ALERT|EMERG)\]/.test(line) || line.includes("Lua"),
};

export const ingresses: readonly Ingress[] = [
  // Debian's nginx-light has the module, as every one of its packages.
  { ...of("nginx", nginx), debianPackage: "nginx-light", spelling: (name) => name },
  { ...of("Caddy", caddy, "version"), debianPackage: "caddy", spelling: goSpelling },
  { ...of("HAProxy", haproxy), debianPackage: "haproxy", spelling: (name) => name.toLowerCase() },
];

function of(name: string, plan: Plan, version = "-v"): Pick<Ingress, "name" | "isInstalled" | "start"> {
  return {
    name,
    isInstalled: isInstalled(plan.command, version),
    start: (cleanup, around) => start(cleanup, plan, around),
  };
}

/** Go writes every name in one way: RateLimit-Limit is Ratelimit-Limit. */
function goSpelling(name: string): string {
  return name.toLowerCase().replace(/(?:^|-)[a-z]/g, (letter) => letter.toUpperCase());
}

export async function start(cleanup: Cleanup, plan: Plan, around: Surroundings): Promise<RunningIngress> {
  const files = (folder: string, port: number): Readonly<Record<string, string>> => {
    const timeouts = around.hasShippedTimeout === true ? [] : plan.timeouts;
    const changes = [...plan.changes({ ...around, port, folder }), ...timeouts];
    const texts = Object.entries(plan.files).map(([name, file]) => [name, shipped(file)] as const);
    for (const [found] of changes) {
      if (!texts.some(([, text]) => text.includes(found))) throw new Error(`not in the shipped files: ${found}`);
    }
    const all = [...texts, ...Object.entries(plan.frame?.({ ...around, port, folder }) ?? {})];
    const changed = (text: string): string =>
      changes.reduce((before, [found, meant]) => before.replaceAll(found, meant), text);
    return Object.fromEntries(all.map(([name, text]) => [name, changed(text)]));
  };
  const { port, folder, output } = await startProgram(cleanup, { ...plan, files });
  const errorFile = join(folder, "errors");
  const log = (): string => output() + (existsSync(errorFile) ? readFileSync(errorFile, "utf8") : "");
  return { port, errors: () => log().split("\n").filter(plan.isError) };
}
