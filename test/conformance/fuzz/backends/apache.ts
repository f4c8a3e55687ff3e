// Apache httpd: its forensic log has every field of a request it could read, its access log a line for each it could
// not.
import { existsSync } from "node:fs";
import { type LogFolder, type RealServer, type SeenRequest, startBackend, trimmed } from "./backend.ts";

const modules = "/usr/lib/apache2/modules";

const config = (folder: string, port: number): string => `
ServerRoot ${folder}
ServerName backend.test
PidFile ${folder}/pid
ErrorLog ${folder}/errors
LogLevel emerg
DefaultRuntimeDir ${folder}
Listen 127.0.0.1:${port}
${["mpm_event", "authz_core", "headers", "log_forensic", "rewrite"].map((name) => `LoadModule ${name}_module ${modules}/mod_${name}.so`).join("\n")}
<IfModule !log_config_module>
  LoadModule log_config_module ${modules}/mod_log_config.so
</IfModule>
<IfModule !unixd_module>
  LoadModule unixd_module ${modules}/mod_unixd.so
</IfModule>
User www-data
Group www-data
StartServers 1
ServerLimit 1
ThreadLimit 96
ThreadsPerChild 96
MaxRequestWorkers 96
AsyncRequestWorkerFactor 10
KeepAlive On
MaxKeepAliveRequests 0
KeepAliveTimeout 60
Timeout 20
LimitRequestFields 1000
LimitRequestFieldSize 65000
LimitRequestLine 65000
AllowEncodedSlashes NoDecode
TraceEnable Off
ForensicLog ${folder}/forensic
LogFormat "%{remote}p\\t%{X-Request-Id}i\\t%{forensic-id}n\\t%>s" seen
CustomLog ${folder}/log seen
Header always set X-Seen "expr=%{req:X-Request-Id}"
RewriteEngine On
RewriteRule ^ - [R=403,L]
`;

/** Heads by the id that the access log names them by, until it does. */
const heads = new WeakMap<LogFolder, Map<string, string>>();

export const apacheServer: RealServer = {
  name: "Apache",
  debianPackage: "apache2",
  isInstalled: () => existsSync("/usr/sbin/apache2"),
  start: () =>
    startBackend({
      command: "/usr/sbin/apache2",
      args: (folder) => ["-f", `${folder}/config`, "-DFOREGROUND"],
      files: (folder, port) => ({ config: config(folder, port) }),
      logsToOutput: false,
      shownAs: joined,
      readLine,
    }),
};

function readLine(text: string, folder: LogFolder): SeenRequest {
  const known = heads.get(folder) ?? new Map<string, string>();
  heads.set(folder, known);
  for (const line of folder.lines("forensic")) {
    if (line.startsWith("+")) known.set(line.slice(1, line.indexOf("|")), line);
  }
  const [port, id = "-", forensicId = "-"] = text.split("\t");
  const head = known.get(forensicId);
  known.delete(forensicId);
  const named = { id: id === "-" ? "" : id, port: Number(port), body: null };
  if (head === undefined) return { ...named, line: null, fields: [] };
  const [, line = "", ...fields] = head.split("|").map(unescaped);
  return { ...named, line, fields: joined(fields) };
}

/** Control bytes, bytes over 127, `|`, `%` and `:` inside a name are written in hexadecimal. */
function unescaped(text: string): string {
  return text.replace(/%([0-9a-f]{2})/g, (_, digits: string) => String.fromCharCode(Number.parseInt(digits, 16)));
}

/** Lines of one name are one to Apache. */
function joined(fields: readonly string[]): string[] {
  const values = new Map<string, string>();
  for (const field of fields) {
    const colon = field.indexOf(":");
    const name = field.slice(0, colon).toLowerCase();
    const value = trimmed(field.slice(colon + 1));
    const before = values.get(name);
    values.set(name, before === undefined ? value : `${before}, ${value}`);
  }
  return [...values].map(([name, value]) => `${name}: ${trimmed(value)}`).sort();
}
