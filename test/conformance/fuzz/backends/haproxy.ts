// HAProxy, answering by itself: tells every field, and the body.
import { isInstalled, type RealServer, type SeenRequest, startBackend, trimmed } from "./backend.ts";

const config = (port: number): string => `
global
  # A thread that finds another one writing to the log gives its line up after a moment.
  nbthread 1
  log stdout len 65000 format raw local0
  maxconn 2000
  tune.bufsize 65536
defaults
  mode http
  log global
  option dontlognull
  timeout client 60s
  timeout http-keep-alive 60s
  timeout http-request 10s
  timeout connect 1s
  timeout server 1s
frontend seen
  bind 127.0.0.1:${port}
  http-request set-var(txn.head) req.hdrs,base64
  http-request set-var(txn.target) url,base64
  http-request set-var(txn.version) req.ver
  http-request set-var(txn.id) req.hdr(x-request-id)
  http-request wait-for-body time 3s if { req.hdr_cnt(content-length) gt 0 } or { req.hdr_cnt(transfer-encoding) gt 0 }
  http-request set-var(txn.body) req.body,base64
  log-format "%cp\t%HM\t%[var(txn.target)]\t%[var(txn.version)]\t%[var(txn.head)]\t%[var(txn.body)]\t%[var(txn.id)]"
  http-request return status 200 hdr X-Seen "%[var(txn.id)]" content-type text/plain string "ok"
`;

export const haproxyServer: RealServer = {
  name: "HAProxy",
  debianPackage: "haproxy",
  isInstalled: () => isInstalled("haproxy"),
  start: () =>
    startBackend({
      command: "haproxy",
      args: (folder) => ["-db", "-f", `${folder}/config`],
      files: (_folder, port) => ({ config: config(port) }),
      logsToOutput: true,
      shownAs: (fields) => shown(fields),
      readLine,
    }),
};

/** HAProxy sorts what concerns the connection out by itself. */
function shown(fields: readonly string[]): string[] {
  return fields
    .map(lowerName)
    .filter((field) => !/^(?:connection|upgrade):/.test(field))
    .sort();
}

function lowerName(field: string): string {
  const colon = field.indexOf(":");
  return `${field.slice(0, colon).toLowerCase()}: ${trimmed(field.slice(colon + 1))}`;
}

function readLine(text: string): SeenRequest {
  const [port, method = "", target = "-", version, head = "-", body = "-", id = "-"] = text.split("\t");
  if (method === "<BADREQ>") return { id: "", port: Number(port), line: null, fields: [], body: null };
  const lines = decoded(head)
    .split("\r\n")
    .filter((line) => line !== "");
  return {
    id: id === "-" ? "" : id,
    port: Number(port),
    line: `${method} ${decoded(target)} HTTP/${version}`,
    fields: shown(lines),
    body: body === "-" ? "" : decoded(body),
  };
}

const decoded = (base64: string): string => Buffer.from(base64, "base64").toString("latin1");
