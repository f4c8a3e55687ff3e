// The fields that the shipped files of nginx, HAProxy and Caddy remove from a client's request before the backend gets it.
import { vouchingNames } from "../../../src/core/field-names.ts";
import { shipped } from "./ingresses.ts";

/** nginx drops such names by itself, unless it is told otherwise. */
const oddForNginx = /[^a-z0-9-]/;

/** Returns what each file says of a name in lower case. */
export const removals: Readonly<Record<string, (name: string) => boolean>> = {
  nginx: removedByNginx(),
  HAProxy: removedByHaproxy(),
  Caddy: removedByCaddy(),
};

function removedByNginx(): (name: string) => boolean {
  // Before the location that asks the gateway.
  const [passed = ""] = shipped("nginx/headgate.conf").split("location = /_headgate");
  const emptied = namesIn(passed, /proxy_set_header (\S+) "";$/);
  return (name) => emptied.includes(name) || oddForNginx.test(name);
}

function removedByHaproxy(): (name: string) => boolean {
  const patterns = namesIn(shipped("haproxy/haproxy.cfg"), /http-request del-header '(.+)' -m reg$/);
  return (name) => patterns.some((pattern) => new RegExp(pattern).test(name));
}

function removedByCaddy(): (name: string) => boolean {
  const removed = namesIn(shipped("caddy/Caddyfile"), /^\trequest_header -([^*]\S*)$/);
  return (name) => removed.some((each) => (each.endsWith("*") ? name.startsWith(each.slice(0, -1)) : name === each));
}

function namesIn(text: string, line: RegExp): string[] {
  return text.split("\n").flatMap((each) => line.exec(each)?.[1]?.toLowerCase() ?? []);
}

/** Those that our proxy drops of an untrusted peer; those with the prefix are examples of any. */
export const droppedNames: readonly string[] = [
  ...vouchingNames,
  ...[
    "x-forwarded-port",
    "x-forwarded-prefix",
    "x-forwarded-user",
    "x-forwarded-tls-client-cert",
    "x-forwarded-server",
  ],
];
