// nginx: one log line a request, with the fields it was asked for.
import { isInstalled, type RealServer, type SeenRequest, startBackend, trimmed } from "./backend.ts";

/** Only those a request has once are compared: of several, versions of nginx show the first, or all as one. */
const told =
  "host connection authorization content-type content-length transfer-encoding te trailer upgrade keep-alive expect cookie range x-a x-b x-c max-forwards forwarded x-real-ip client-ip true-client-ip proxy-authorization proxy-connection x-forwarded-for x-forwarded-proto x-forwarded-host via x-request-id".split(
    " ",
  );

/** These mean nothing to the gateway, so others pass that nginx takes for them: it reads `_` as `-`. */
const ordinary = new Set(["x-a", "x-b", "x-c"]);

const isTakenFor = (name: string, known: string): boolean =>
  name === known || (ordinary.has(known) && name.replaceAll("_", "-") === known);

const variable = (name: string): string => `$http_${name.replaceAll("-", "_")}`;

const config = (folder: string, port: number): string => `
daemon off;
worker_processes 1;
pid ${folder}/pid;
error_log ${folder}/errors crit;
events { worker_connections 2048; }
http {
  log_format seen escape=json '{"id":"$http_x_request_id","port":"$remote_port","status":"$status","line":"$request",${told
    .map((name) => `"${name}":"${variable(name)}"`)
    .join(",")}}';
  access_log ${folder}/log seen;
  keepalive_requests 100000000;
  keepalive_timeout 60s;
  client_max_body_size 0;
  large_client_header_buffers 4 64k;
  underscores_in_headers on;
  merge_slashes off;
  ${["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map((use) => `${use}_temp_path ${folder}/${use};`).join(" ")}
  server {
    listen 127.0.0.1:${port};
    add_header X-Seen $http_x_request_id always;
    return 200 "ok";
  }
}
`;

export const nginxServer: RealServer = {
  name: "nginx",
  debianPackage: "nginx-light",
  isInstalled: () => isInstalled("nginx"),
  start: () =>
    startBackend({
      command: "nginx",
      args: (folder) => ["-c", `${folder}/config`, "-p", folder, "-e", `${folder}/errors`],
      files: (folder, port) => ({ config: config(folder, port) }),
      logsToOutput: false,
      shownAs,
      readLine,
    }),
};

function shownAs(sent: readonly string[], seen: readonly string[]): string[] {
  const named = sent.map((field) => {
    const colon = field.indexOf(":");
    return { name: field.slice(0, colon).toLowerCase(), value: trimmed(field.slice(colon + 1)) };
  });
  return told.flatMap((name) => {
    const [one, ...others] = named.filter((field) => isTakenFor(field.name, name));
    if (others.length > 0) return seen.filter((field) => field.startsWith(`${name}: `));
    return one === undefined || one.value === "" ? [] : [`${name}: ${one.value}`];
  });
}

function readLine(text: string): SeenRequest {
  const { id, port, line = "", ...values }: Record<string, string> = JSON.parse(text);
  const fields = told.flatMap((name) => (values[name] === "" ? [] : [`${name}: ${values[name]}`]));
  const isRefused = id === "" && values["status"]?.startsWith("4") === true;
  return { id: id ?? "", port: Number(port), line: isRefused ? null : line, fields, body: null };
}
