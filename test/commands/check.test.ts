// A folder of broken configurations, one mistake each (two where the path is that of no file), and the exact lines
// `headgate check` answers each with.
import { execFile, execFileSync } from "node:child_process";
import { mkdtempSync, readdirSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { describe, expect, test } from "vitest";
import { run } from "../../src/commands/check.ts";
import { packagedConfigFile } from "../../src/config/load.ts";
import { schema } from "../../src/config/schema.ts";
import { enumerate } from "../../src/core/enumerate.ts";
import { policyMessages } from "./policy-messages.ts";
import { testIo } from "./test-io.ts";

const folder = fileURLToPath(new URL("../config/broken", import.meta.url));

// Sorted by file. The messages are what an operator reads; a change of one is a change of what is shown.
const messages = new Map([
  ...policyMessages,
  ["a-list.yaml", "a-list.yaml:1:1: found a list, expected a mapping of keys to values"],
  [
    "admin-hosts-url.yaml",
    'admin-hosts-url.yaml:2:11: admin.hosts.0: found "http://admin", expected a host name or an IP address, with a port or without, such as "10.0.0.1:9464" or "[::1]:9464"',
  ],
  [
    "admin-hosts-without-api.yaml",
    'admin-hosts-without-api.yaml:2:10: admin.hosts: found ["admin.internal"], expected none, since there is no API; name admin.tokensFile or admin.socket, or remove admin.hosts',
  ],
  [
    "admin-socket-home.yaml",
    'admin-socket-home.yaml:2:11: admin.socket: found "~/admin.sock", expected the path of a file without ~, which only shells read',
  ],
  [
    "admin-tls-without-cert.yaml",
    "admin-tls-without-cert.yaml:2:15: admin.tls.cert: found nothing, expected the path of a file, since admin.tls.key is set; name the certificate, or remove admin.tls.key\n" +
      "admin-tls-without-cert.yaml:2:15: admin.tls.key: key.pem: cannot be read: no such file",
  ],
  [
    "admin-tls-without-key.yaml",
    "admin-tls-without-key.yaml:2:16: admin.tls.key: found nothing, expected the path of a file, since admin.tls.cert is set; name its private key, or remove admin.tls.cert\n" +
      "admin-tls-without-key.yaml:2:16: admin.tls.cert: cert.pem: cannot be read: no such file",
  ],
  [
    "admin-tokens-missing.yaml",
    "admin-tokens-missing.yaml:2:15: admin.tokensFile: nowhere.txt: cannot be read: no such file",
  ],
  [
    "admin-tokens-wrong.yaml",
    "admin-tokens.txt:3: found an unknown role, expected a SHA-256 digest of 64 hex digits, then read or write, then # and a name\n" +
      "admin-tokens.txt:4: found no name, expected a SHA-256 digest of 64 hex digits, then read or write, then # and a name\n" +
      "admin-tokens.txt:5: found no SHA-256 digest at its beginning, expected a SHA-256 digest of 64 hex digits, then read or write, then # and a name\n" +
      "admin-tokens.txt:6: found the digest of line 2 again, expected each digest once\n" +
      "admin-tokens.txt:7: found the name socket, expected a name that does not stand for the Unix socket",
  ],
  ["alias-in-itself.yaml", "alias-in-itself.yaml:1:14: found more than 32 levels, expected fewer"],
  [
    "alias-without-anchor.yaml",
    "alias-without-anchor.yaml:2:9: found an alias (*name), expected its anchor (&name) before it",
  ],
  [
    "auth-is-a-mode.yaml",
    'auth-is-a-mode.yaml:1:7: auth: found "tokens", expected a mapping of mode, rules, realm and tokensFile; did you mean "auth.mode"?',
  ],
  [
    "auth-mode-later.yaml",
    'auth-mode-later.yaml:2:9: auth.mode: found "jwt", expected off, presence or tokens (jwt is not supported yet)',
  ],
  [
    "auth-rule-covered.yaml",
    "auth-rule-covered.yaml:4:7: auth.rules.1: found a mapping, expected none for requests that auth.rules.0 decides about; move it up, or remove one of the two",
  ],
  [
    "auth-rule-no-file.yaml",
    "auth-rule-no-file.yaml:2:34: auth.tokensFile: found nothing, expected the path of a file, since auth.rules.0.mode is tokens; name the file, or change auth.rules.0.mode",
  ],
  [
    "auth-rule-no-route.yaml",
    'auth-rule-no-route.yaml:2:21: auth.rules.0.paths.0: found "/health", expected a path under one of the routes (/v1/, /v2/); change it, or add its route to routes',
  ],
  [
    "auth-rule-path.yaml",
    'auth-rule-path.yaml:2:13: auth.rules.0.path: unknown key; did you mean "auth.rules.0.paths"?',
  ],
  [
    "auth-rule-scopes.yaml",
    'auth-rule-scopes.yaml:2:52: auth.rules.0.scopes: found ["read"], expected none, since mode is presence, where nobody knows the scopes; remove it, or set mode to tokens',
  ],
  [
    "auth-rule-without-mode.yaml",
    "auth-rule-without-mode.yaml:2:11: auth.rules.0.mode: found nothing, expected off, presence or tokens",
  ],
  [
    "auth-realm.yaml",
    String.raw`auth-realm.yaml:2:10: auth.realm: found "the \"finance\" API", expected at most 128 printable ASCII characters without \ and "`,
  ],
  [
    "base-path-dots.yaml",
    String.raw`base-path-dots.yaml:1:11: basePath: found "/finance/../admin", expected a path that begins with "/", without empty or dot segments and without %, ?, #, \ or ;`,
  ],
  [
    "base-path-relative.yaml",
    String.raw`base-path-relative.yaml:1:11: basePath: found "finance", expected a path that begins with "/", without empty or dot segments and without %, ?, #, \ or ;`,
  ],
  [
    "connections-per-peer.yaml",
    "connections-per-peer.yaml:2:19: listen.maxConnectionsPerPeer: found 1000, expected at most listen.maxConnections (500); lower it, or raise listen.maxConnections",
  ],
  [
    "connections-zero.yaml",
    "connections-zero.yaml:2:19: upstream.maxConnections: found 0, expected a whole number from 1 to 65535",
  ],
  [
    "cors-origin.yaml",
    'cors-origin.yaml:2:13: cors.origins.0: found "https://app.example/", expected an origin such as "https://app.example" or "http://localhost:5173", without a path and without *',
  ],
  [
    "cors-wildcard.yaml",
    'cors-wildcard.yaml:2:13: cors.origins.0: found "*", expected an origin such as "https://app.example" or "http://localhost:5173", without a path and without *',
  ],
  [
    "cors-twice.yaml",
    `cors-twice.yaml:2:34: cors.origins.1: found "HTTPS://App.Example:443", expected no second "https://app.example"; remove it`,
  ],
  [
    "drop-headers-a-word.yaml",
    'drop-headers-a-word.yaml:2:16: clientAddress.dropHeaders: found "Remote-User", expected a list of at most 64 names of headers; did you mean [Remote-User]?',
  ],
  [
    "drop-headers-in-key.yaml",
    'drop-headers-in-key.yaml:2:30: clientAddress.dropHeaders.1: found "X_Org", expected none that policies.0.key.1 reads; remove one of the two',
  ],
  [
    "drop-headers-no-name.yaml",
    'drop-headers-no-name.yaml:2:17: clientAddress.dropHeaders.0: found "Remote User", expected a header that neither frames a message nor is read by the gateway, in any spelling, such as "X-SSL-Client-CN"',
  ],
  [
    "drop-headers-own.yaml",
    'drop-headers-own.yaml:2:34: clientAddress.dropHeaders.1: found "Authorization", expected a header that neither frames a message nor is read by the gateway, in any spelling, such as "X-SSL-Client-CN"',
  ],
  [
    "drop-headers-spelling.yaml",
    'drop-headers-spelling.yaml:2:17: clientAddress.dropHeaders.0: found "X_Forwarded_For", expected a header that neither frames a message nor is read by the gateway, in any spelling, such as "X-SSL-Client-CN"',
  ],
  [
    "drop-headers-twice.yaml",
    'drop-headers-twice.yaml:2:30: clientAddress.dropHeaders.1: found "remote-user", expected no second "remote-user"; remove it',
  ],
  [
    "duplicate-key.yaml",
    "duplicate-key.yaml:4:3: drain.delay: found a second one, expected one (the first is in line 2)",
  ],
  [
    "duplicate-section.yaml",
    "duplicate-section.yaml:3:1: listen: found a second one, expected one (the first is in line 1)",
  ],
  [
    "duration-too-long.yaml",
    'duration-too-long.yaml:2:12: drain.timeout: found "2h", expected a duration from 1ms to 1h, such as "25s"',
  ],
  [
    "duration-unit.yaml",
    'duration-unit.yaml:2:9: timeouts.head: found "10sec", expected a duration from 1ms to 1d, a whole number with ms, s, m, h or d, such as "10s"',
  ],
  [
    "duration-without-unit.yaml",
    'duration-without-unit.yaml:2:20: upstream.responseTimeout: found 30, expected a duration with its unit, such as "30s"',
  ],
  [
    "duration-zero.yaml",
    'duration-zero.yaml:2:9: timeouts.body: found "0s", expected a duration from 1ms to 1d, such as "60s"',
  ],
  ["errors-format-flat.yaml", 'errors-format-flat.yaml:1:1: errorFormat: unknown key; did you mean "errors.format"?'],
  [
    "errors-format-word.yaml",
    'errors-format-word.yaml:2:11: errors.format: found "rfc9457", expected v2, problem or plain',
  ],
  [
    "fields-structured-only.yaml",
    'fields-structured-only.yaml:1:9: fields: found ["structured"], expected standard or legacy among them; add one of the two',
  ],
  ["fields-twice.yaml", 'fields-twice.yaml:1:28: fields.2: found "standard", expected no second "standard"; remove it'],
  [
    "fields-unknown.yaml",
    'fields-unknown.yaml:1:20: fields.1: found "draft-ish", expected standard, legacy or structured',
  ],
  [
    "header-word.yaml",
    'header-word.yaml:2:11: clientAddress.header: found "x-real-ish", expected x-forwarded-for or forwarded',
  ],
  [
    "host-mistyped-address.yaml",
    'host-mistyped-address.yaml:2:9: listen.host: found "127.0.0.256", expected an IP address (without brackets) or a host name',
  ],
  [
    "host-with-brackets.yaml",
    'host-with-brackets.yaml:2:9: listen.host: found "[::1]", expected an IP address (without brackets) or a host name',
  ],
  [
    "host-with-port.yaml",
    'host-with-port.yaml:2:9: admin.host: found "127.0.0.1:9464", expected an IP address (without brackets) or a host name',
  ],
  [
    "ipv6-prefix.yaml",
    "ipv6-prefix.yaml:2:15: clientAddress.ipv6Prefix: found 16, expected a whole number from 32 to 128",
  ],
  [
    "key-is-a-mapping.yaml",
    String.raw`key-is-a-mapping.yaml:1:11: basePath: found a mapping, expected a path that begins with "/", without empty or dot segments and without %, ?, #, \ or ;`,
  ],
  [
    "listeners-collide.yaml",
    "listeners-collide.yaml:1:17: admin.port: found 9464, expected a port other than listen.port, because 127.0.0.1 and 0.0.0.0 overlap",
  ],
  ["ext-auth-deny-status.yaml", "ext-auth-deny-status.yaml:2:15: extAuth.denyStatus: found 503, expected 429 or 403"],
  [
    "ext-auth-grpc-is-the-upstream.yaml",
    `ext-auth-grpc-is-the-upstream.yaml:2:32: upstream.url: found "http://127.0.0.1:3000", expected another address than the gateway's own (extAuth.grpc); name the API behind it, or change extAuth.grpc.port`,
  ],
  [
    "ext-auth-grpc-port-taken.yaml",
    "ext-auth-grpc-port-taken.yaml:2:32: extAuth.grpc.port: found 9466, expected a port other than extAuth.http.port, because both are on 127.0.0.1",
  ],
  [
    "ext-auth-grpc-without-callers.yaml",
    "ext-auth-grpc-without-callers.yaml:2:20: extAuth.trustedCallers: found nothing, expected the addresses of the ingresses (or extAuth.secretsFile), since extAuth.grpc.enabled is true",
  ],
  [
    "ext-auth-is-the-upstream.yaml",
    `ext-auth-is-the-upstream.yaml:2:32: upstream.url: found "http://127.0.0.1:3000", expected another address than the gateway's own (extAuth.http); name the API behind it, or change extAuth.http.port`,
  ],
  [
    "ext-auth-port-taken.yaml",
    "ext-auth-port-taken.yaml:2:32: extAuth.http.port: found 8080, expected a port other than listen.port, because 127.0.0.1 and 0.0.0.0 overlap",
  ],
  [
    "ext-auth-secrets-missing.yaml",
    "ext-auth-secrets-missing.yaml:3:16: extAuth.secretsFile: nowhere.txt: cannot be read: no such file",
  ],
  [
    "ext-auth-without-callers.yaml",
    "ext-auth-without-callers.yaml:2:20: extAuth.trustedCallers: found nothing, expected the addresses of the ingresses (or extAuth.secretsFile), since extAuth.http.enabled is true",
  ],
  ["log-access.yaml", 'log-access.yaml:2:11: log.access: found "yes", expected true or false'],
  ["log-time.yaml", 'log-time.yaml:2:9: log.time: found "rfc-ish", expected unix or iso'],
  [
    "log-level.yaml",
    'log-level.yaml:2:10: log.level: found "verbose-ish", expected debug, info, warn, error or silent',
  ],
  ["not-a-mapping.yaml", "not-a-mapping.yaml:1:1: found text, expected a mapping of keys to values"],
  ["not-utf-8.yaml", "not-utf-8.yaml: found bytes that are not UTF-8, expected text in UTF-8"],
  [
    "only-comments.yaml",
    "only-comments.yaml: found no key, expected a configuration; write {} for one with all defaults",
  ],
  ["zero-bytes.yaml", "zero-bytes.yaml: found no key, expected a configuration; write {} for one with all defaults"],
  ["port-empty.yaml", "port-empty.yaml:2:8: listen.port: found nothing, expected a whole number from 0 to 65535"],
  ["port-fraction.yaml", "port-fraction.yaml:1:16: admin.port: found 9464.5, expected a whole number from 0 to 65535"],
  [
    "port-out-of-range.yaml",
    "port-out-of-range.yaml:2:9: listen.port: found 65536, expected a whole number from 0 to 65535",
  ],
  [
    "port-quoted.yaml",
    'port-quoted.yaml:1:17: listen.port: found "8080", expected a whole number from 0 to 65535, without quotes',
  ],
  ["port-text.yaml", 'port-text.yaml:2:9: listen.port: found "eighty", expected a whole number from 0 to 65535'],
  [
    "prototype-key.yaml",
    "prototype-key.yaml:2:3: listen.__proto__: unknown key; expected host, port, proxyProtocol, proxyScheme, maxConnections, maxConnectionsPerPeer, newConnectionsPerPeer, maxRequestsPerConnection or tls",
  ],
  [
    "proxy-name.yaml",
    'proxy-name.yaml:2:32: clientAddress.trustedProxies.1: found "balancer.internal", expected an IP address or a network such as "10.0.0.0/8"',
  ],
  [
    "proxy-prefix.yaml",
    'proxy-prefix.yaml:2:20: clientAddress.trustedProxies.0: found "10.0.0.0/33", expected an IP address or a network such as "10.0.0.0/8"',
  ],
  [
    "proxy-scheme.yaml",
    'proxy-scheme.yaml:1:24: listen.proxyScheme: found "https", expected http, since listen.proxyProtocol is false; set that to true, or remove listen.proxyScheme',
  ],
  [
    "quota-path.yaml",
    String.raw`quota-path.yaml:2:9: quota.path: found "quota", expected a path that begins with "/" and does not end with one, without empty or dot segments and without %, ?, #, \ or ;, and none of /livez, /readyz, /metrics and /.well-known/oauth-protected-resource, or null`,
  ],
  [
    "quota-path-known.yaml",
    String.raw`quota-path-known.yaml:1:16: quota.path: found "/Metrics", expected a path that begins with "/" and does not end with one, without empty or dot segments and without %, ?, #, \ or ;, and none of /livez, /readyz, /metrics and /.well-known/oauth-protected-resource, or null`,
  ],
  [
    "quota-path-query.yaml",
    String.raw`quota-path-query.yaml:2:9: quota.path: found "/quota?of=me", expected a path that begins with "/" and does not end with one, without empty or dot segments and without %, ?, #, \ or ;, and none of /livez, /readyz, /metrics and /.well-known/oauth-protected-resource, or null`,
  ],
  [
    "readiness-path.yaml",
    String.raw`readiness-path.yaml:1:20: readiness.path: found "/%68ealthz", expected a path that begins with "/", without empty or dot segments and without %, ?, #, \ or ;, or null`,
  ],
  [
    "readiness-path-limited.yaml",
    'readiness-path-limited.yaml:2:20: readiness.path: found "/finance/V2", expected a path outside of /v1/ and /v2/, which are limited; choose another one',
  ],
  [
    "readiness-path-of-quota.yaml",
    'readiness-path-of-quota.yaml:3:20: readiness.path: found "/finance/mine", expected another path than that of quota.path; change one of the two',
  ],
  [
    "route-double-slash.yaml",
    String.raw`route-double-slash.yaml:1:10: routes.0: found "//v1/", expected a path that begins and ends with "/", without empty or dot segments and without %, ?, #, \ or ;`,
  ],
  [
    "route-encoded.yaml",
    String.raw`route-encoded.yaml:3:5: routes.1: found "/v%32/", expected a path that begins and ends with "/", without empty or dot segments and without %, ?, #, \ or ;`,
  ],
  [
    "route-inside-another.yaml",
    'route-inside-another.yaml:3:5: routes.1: found "/v1/", expected none that overlaps "/v1/crypto/" (routes.0; case is ignored); remove one of the two',
  ],
  [
    "route-open-end.yaml",
    `route-open-end.yaml:1:16: routes.1: found "/v2", expected a path that begins and ends with "/", such as /v2/`,
  ],
  [
    "route-twice.yaml",
    'route-twice.yaml:1:22: routes.2: found "/V1/", expected no second "/v1/" (routes.0; case is ignored); remove one of the two',
  ],
  ["routes-empty.yaml", "routes-empty.yaml:1:9: routes: found an empty list, expected a list of 1 to 64 paths"],
  [
    "routes-not-a-list.yaml",
    'routes-not-a-list.yaml:1:9: routes: found "/v1/", expected a list of 1 to 64 paths; did you mean [/v1/]?',
  ],
  [
    "section-is-a-list.yaml",
    "section-is-a-list.yaml:1:9: listen: found [8080], expected a mapping of host, port, proxyProtocol, proxyScheme, maxConnections, maxConnectionsPerPeer, newConnectionsPerPeer, maxRequestsPerConnection and tls",
  ],
  [
    "section-is-text.yaml",
    'section-is-text.yaml:1:9: listen: found "0.0.0.0:8080", expected a mapping of host, port, proxyProtocol, proxyScheme, maxConnections, maxConnectionsPerPeer, newConnectionsPerPeer, maxRequestsPerConnection and tls',
  ],
  [
    "size-of-heads.yaml",
    'size-of-heads.yaml:1:17: maxHeaderBytes: found "1MiB", expected a size from 4KiB to 256KiB, such as "16KiB"',
  ],
  [
    "size-unit.yaml",
    'size-unit.yaml:1:15: maxBodyBytes: found "10 megabytes", expected a size from 1B to 1TiB, a whole number with KiB, MiB or GiB, such as "10MiB"',
  ],
  ["size-zero.yaml", 'size-zero.yaml:1:15: maxBodyBytes: found 0, expected a size from 1B to 1TiB, such as "10MiB"'],
  [
    "syntax-colon.yaml",
    'syntax-colon.yaml:2:10: not valid YAML: a key inside a value; text that holds ": " needs quotes',
  ],
  [
    "syntax-flow-list.yaml",
    "syntax-flow-list.yaml:2:1: not valid YAML: flow sequence in block collection must be sufficiently indented and end with a ]",
  ],
  ["syntax-quote.yaml", "syntax-quote.yaml:3:1: not valid YAML: a quote that is never closed"],
  ["syntax-tab.yaml", "syntax-tab.yaml:2:1: not valid YAML: tabs are not allowed as indentation"],
  ["syntax-tag.yaml", "syntax-tag.yaml:2:8: not valid YAML: tags (!name) have no meaning here"],
  [
    "target-above-head.yaml",
    'target-above-head.yaml:2:17: maxTargetBytes: found "16KiB", expected at most maxHeaderBytes (12288); lower it, or raise maxHeaderBytes',
  ],
  [
    "tokens-file-bad-line.yaml",
    'bad-line.txt:3: found 43 characters that are no SHA-256 digest, expected a SHA-256 digest of 64 hex digits, as "headgate token" prints it',
  ],
  [
    "tokens-file-empty.yaml",
    'no-digest.txt:1: found no digest in the file, expected a SHA-256 digest of 64 hex digits, as "headgate token" prints it',
  ],
  [
    "tokens-file-home.yaml",
    'tokens-file-home.yaml:3:15: auth.tokensFile: found "~/tokens.txt", expected the path of a file without ~, which only shells read',
  ],
  [
    "tokens-file-missing.yaml",
    "tokens-file-missing.yaml:3:15: auth.tokensFile: nowhere.txt: cannot be read: no such file",
  ],
  [
    "tokens-file-without-mode.yaml",
    'tokens-file-without-mode.yaml:3:15: auth.tokensFile: found "tokens.txt", expected none, since auth.mode is presence; remove it, or set auth.mode to tokens',
  ],
  [
    "tokens-without-file.yaml",
    "tokens-without-file.yaml:2:9: auth.tokensFile: found nothing, expected the path of a file, since auth.mode is tokens; name the file, or change auth.mode",
  ],
  ["two-documents.yaml", "two-documents.yaml:2:1: found a second document, expected one"],
  [
    "unknown-key-elsewhere.yaml",
    'unknown-key-elsewhere.yaml:1:1: maxConnections: unknown key; did you mean "listen.maxConnections"?',
  ],
  [
    "unknown-key-far.yaml",
    `unknown-key-far.yaml:1:1: caching-ish: unknown key; expected ${enumerate(Object.keys(schema.keys))}`,
  ],
  [
    "unknown-key.yaml",
    'unknown-key.yaml:2:3: upstream.connect_timeout: unknown key; did you mean "upstream.connectTimeout"?',
  ],
  [
    "unknown-key-namesakes.yaml",
    "unknown-key-namesakes.yaml:5:5: policies.0.cert: unknown key; expected name, limit, window, per, timezone, concurrency, match, who, key, cost, charge, mode, exempt or overrides",
  ],
  [
    "unknown-key-word.yaml",
    'unknown-key-word.yaml:2:3: upstream.timeout: unknown key; did you mean "upstream.connectTimeout", "upstream.responseTimeout" or "upstream.bodyTimeout"?',
  ],
  ["unknown-section.yaml", 'unknown-section.yaml:1:1: upstrem: unknown key; did you mean "upstream"?'],
  ["unmatched-word.yaml", 'unmatched-word.yaml:1:12: unmatched: found "allow-ish", expected reject or proxy'],
  [
    "upstream-address-port.yaml",
    'upstream-address-port.yaml:2:15: upstream.addresses.0: found "10.0.0.1:0", expected a host name or an IP address, with a port or without, such as "10.0.0.1:3000" or "[::1]:3000"',
  ],
  [
    "upstream-address-scheme.yaml",
    'upstream-address-scheme.yaml:2:15: upstream.addresses.0: found "http://10.0.0.1", expected a host name or an IP address, with a port or without, such as "10.0.0.1:3000" or "[::1]:3000"',
  ],
  [
    "upstream-address-twice.yaml",
    'upstream-address-twice.yaml:2:24: upstream.addresses.1: found "backend", expected no second "backend"; remove it',
  ],
  [
    "upstream-address-is-the-gateway.yaml",
    `upstream-address-is-the-gateway.yaml:2:15: upstream.addresses.0: found "127.0.0.1:8080", expected another address than the gateway's own (listen); name the API behind it, or change listen.port`,
  ],
  [
    "upstream-credentials.yaml",
    'upstream-credentials.yaml:2:8: upstream.url: found "http://***@api.example.com/", expected an absolute http:// or https:// URL without credentials, query or fragment',
  ],
  [
    "upstream-is-the-gateway.yaml",
    `upstream-is-the-gateway.yaml:2:8: upstream.url: found "http://localhost:8080/api", expected another address than the gateway's own (listen); name the API behind it, or change listen.port`,
  ],
  [
    "upstream-query.yaml",
    'upstream-query.yaml:2:8: upstream.url: found "http://api.example.com/?***", expected an absolute http:// or https:// URL without credentials, query or fragment',
  ],
  [
    "upstream-health-path.yaml",
    'upstream-health-path.yaml:3:11: upstream.healthCheck.path: found "health", expected a path that begins with "/", without blanks, fragment and control characters, or null',
  ],
  [
    "upstream-words.yaml",
    'upstream-words.yaml:2:3: upstream.preserve_host: unknown key; did you mean "upstream.hostHeader"?\n' +
      'upstream-words.yaml:3:3: upstream.proxyReadTimeout: unknown key; did you mean "upstream.responseTimeout" or "upstream.bodyTimeout"?',
  ],
  [
    "upstream-host-header.yaml",
    'upstream-host-header.yaml:2:15: upstream.hostHeader: found "api.example.com", expected client, url or name: and a host, with a port or without, such as name:api.example.com',
  ],
  [
    "upstream-host-header-name.yaml",
    'upstream-host-header-name.yaml:2:15: upstream.hostHeader: found "name:https://api.example.com", expected client, url or name: and a host, with a port or without, such as name:api.example.com',
  ],
  [
    "upstream-tls-ca-missing.yaml",
    "upstream-tls-ca-missing.yaml:4:9: upstream.tls.ca: nowhere.pem: cannot be read: no such file",
  ],
  [
    "upstream-tls-ca-no-certificate.yaml",
    "upstream-tls-ca-no-certificate.yaml:4:9: upstream.tls.ca: bad-line.txt: found no certificate, expected one or more in PEM",
  ],
  [
    "upstream-tls-cert-without-key.yaml",
    "upstream-tls-cert-without-key.yaml:4:11: upstream.tls.key: found nothing, expected the path of a file, since upstream.tls.cert has one; name it, or remove upstream.tls.cert\n" +
      "upstream-tls-cert-without-key.yaml:4:11: upstream.tls.cert: cert.pem: cannot be read: no such file",
  ],
  [
    "upstream-tls-insecure-without-https.yaml",
    "upstream-tls-insecure-without-https.yaml:3:25: upstream.tls.insecureSkipVerify: found true, expected false, since upstream.url is not https; remove it, or begin upstream.url with https://",
  ],
  [
    "upstream-tls-server-name.yaml",
    'upstream-tls-server-name.yaml:4:17: upstream.tls.serverName: found "api.example.com:443", expected a host name or an IP address (without brackets), or null',
  ],
  [
    "upstream-tls-without-https.yaml",
    'upstream-tls-without-https.yaml:4:9: upstream.tls.ca: found "ca.pem", expected none, since upstream.url is not https; remove it, or begin upstream.url with https://',
  ],
  [
    "upstream-without-scheme.yaml",
    'upstream-without-scheme.yaml:2:8: upstream.url: found "127.0.0.1:3000", expected an absolute http:// or https:// URL without credentials, query or fragment',
  ],
  [
    "tls-without-cert.yaml",
    "tls-without-cert.yaml:2:20: listen.tls.cert: found nothing, expected the path of a file, since listen.tls.clientCa is set; name the certificate, or remove listen.tls.clientCa\n" +
      "tls-without-cert.yaml:2:20: listen.tls.clientCa: ca.pem: cannot be read: no such file",
  ],
  [
    "tls-without-key.yaml",
    "tls-without-key.yaml:2:16: listen.tls.key: found nothing, expected the path of a file, since listen.tls.cert is set; name its private key, or remove listen.tls.cert\n" +
      "tls-without-key.yaml:2:16: listen.tls.cert: cert.pem: cannot be read: no such file",
  ],
]);

describe("a broken configuration is refused with exactly these lines", () => {
  test.each([...messages])("%s", async (file, message) => {
    const io = testIo({ cwd: folder });
    expect(await run({ file, overrides: [] }, io)).toBe(78);
    expect(io.errText()).toBe(`${message}\n`);
    expect(io.outText()).toBe("");
  });

  test("every file of the folder is in the table", () => {
    const files = readdirSync(folder).filter((name) => name.endsWith(".yaml"));
    expect(files.toSorted()).toEqual([...messages.keys()].toSorted());
  });
});

test("no line repeats a password, a key in a query or a token", () => {
  for (const message of messages.values()) expect(message).not.toMatch(/hunter2|VkDDbDGps0CC/);
});

test("a line about values that contradict each other says what to change", () => {
  const contradictions = [...messages.values()].filter((message) =>
    /expected (none|false,|the path of a file, since|no second|another|at (most|least) [a-z])/.test(message),
  );
  expect(contradictions.length).toBeGreaterThan(30);
  for (const message of contradictions) expect(message).toMatch(/expected .*; \w+/);
});

test("all mistakes are listed at once, each source in its own words", async () => {
  const io = testIo({ cwd: folder, env: { HEADGATE_ADMIN_PORT: "ninety", HEADGATE_LISTEN_PROT: "80" } });
  const overrides = [
    { path: ["drain", "delay"], text: "5", at: { kind: "command line", option: "--set" } },
    { path: ["listen", "prot"], text: "5", at: { kind: "command line", option: "--set" } },
  ] as const;
  expect(await run({ file: "port-text.yaml", overrides }, io)).toBe(78);
  expect(io.errText().trim().split("\n").toSorted()).toEqual([
    'command line --set: drain.delay: found 5, expected a duration with its unit, such as "5s"',
    'command line --set: listen.prot: unknown key; did you mean "listen.port"?',
    'environment HEADGATE_ADMIN_PORT: admin.port: found "ninety", expected a whole number from 0 to 65535',
    'environment HEADGATE_LISTEN_PROT: unknown variable; did you mean "HEADGATE_LISTEN_PORT"?',
    'port-text.yaml:2:9: listen.port: found "eighty", expected a whole number from 0 to 65535',
  ]);
});

test("mistakes of one kind hide none of another: types, pairs and files are told together", async () => {
  const io = testIo({ cwd: folder, env: { HEADGATE_AUTH_MODE: "tokens", HEADGATE_UPSTREAM_URL: "https://api" } });
  const set = (key: string, text: string) =>
    ({ path: key.split("."), text, at: { kind: "command line", option: `--set ${key}` } }) as const;
  const overrides = [
    set("listen.tls.cert", "nowhere.pem"),
    set("listen.maxConnections", "5"),
    set("auth.tokensFile", "bad-line.txt"),
    set("upstream.tls.ca", "no-digest.txt"),
    set("upstream.tls.key", "nowhere.key"),
  ];
  expect(await run({ file: "port-text.yaml", overrides }, io)).toBe(78);
  expect(io.errText().trim().split("\n")).toEqual([
    messages.get("port-text.yaml"),
    "command line --set listen.maxConnections: listen.maxConnectionsPerPeer: found 1000, expected at most listen.maxConnections (5); lower it, or raise listen.maxConnections",
    "command line --set listen.tls.cert: listen.tls.key: found nothing, expected the path of a file, since listen.tls.cert is set; name its private key, or remove listen.tls.cert",
    "command line --set upstream.tls.key: upstream.tls.cert: found nothing, expected the path of a file, since upstream.tls.key has one; name it, or remove upstream.tls.key",
    messages.get("tokens-file-bad-line.yaml"),
    "command line --set listen.tls.cert: listen.tls.cert: nowhere.pem: cannot be read: no such file",
    "command line --set upstream.tls.ca: upstream.tls.ca: no-digest.txt: found no certificate, expected one or more in PEM",
    "command line --set upstream.tls.key: upstream.tls.key: nowhere.key: cannot be read: no such file",
  ]);
});

test("a good configuration is named and shown with what is in effect", async () => {
  const io = testIo({ env: { HEADGATE_LISTEN_PORT: "0", HEADGATE_ROUTES: "/v3/" } });
  expect(await run({ file: undefined, overrides: [] }, io)).toBe(0);
  const lines = io.outText().split("\n");
  expect(lines[0]).toBe(`${packagedConfigFile}: ok`);
  expect(lines.find((line) => line.startsWith("listen: "))).toMatch(
    /^listen: \{ host: 0\.0\.0\.0, port: 0, proxyProtocol: false, proxyScheme: http, maxConnections: 10000, .*\}$/,
  );
  expect(lines).toContain("routes: [ /v3/ ]");
  expect(lines).toContain("policies: [ { name: per-ip, limit: 100, window: 60s } ]");
  expect(io.errText()).toBe("");
});

test("names of listed tokens are shown, and no other value that may be a secret", async () => {
  const place = mkdtempSync(join(tmpdir(), "headgate-check-"));
  writeFileSync(join(place, "tokens"), `${"ab".repeat(32)}  # acme\n`);
  const overrides = ["token: acme", `token: ${"ab".repeat(32)}`, "token: acne", "header: acme"];
  const yaml = [
    "auth: { mode: tokens, tokensFile: tokens }",
    'policies: [{ name: a, limit: 9, window: 1s, key: [token, "header:x-key"], overrides: [',
    ...overrides.map((override) => `  { ${override}, limit: 5 },`),
    "  ]}]",
  ];
  writeFileSync(join(place, "c.yaml"), yaml.join("\n"));
  const io = testIo({ cwd: place });
  expect(await run({ file: "c.yaml", overrides: [] }, io)).toBe(0);
  const shown = ["token: acme", 'token: "***"', 'token: "***"', 'header: "***"'];
  const expected = shown.map((override) => `{ ${override}, limit: 5 }`).join(", ");
  expect(io.outText()).toContain(`overrides: [ ${expected} ]`);
});

test("a place where no snapshot can be written is a warning, since the gateway may run elsewhere", async () => {
  const place = mkdtempSync(join(tmpdir(), "headgate-check-"));
  const warningOf = async (path: string): Promise<string> => {
    const io = testIo({ env: { HEADGATE_COUNTERS_SNAPSHOT_PATH: path }, cwd: place });
    expect(await run({ file: undefined, overrides: [] }, io)).toBe(0);
    return io.errText();
  };
  const warning = (flaw: string) => `warning: counters.snapshot.path: ${flaw}, so no snapshot can be written here\n`;
  expect(await warningOf("counters")).toBe("");
  expect(await warningOf("missing/counters")).toBe(warning(`there is no folder ${join(place, "missing")}`));
  expect(await warningOf(place)).toBe(warning(`${place} is a folder`));
  writeFileSync(join(place, "file"), "");
  const noFolder = `the folder ${join(place, "file")} cannot be written to (ENOTDIR)`;
  expect(await warningOf("file/counters")).toBe(warning(noFolder));
});

test("the command itself exits 78 with the line on standard error", async () => {
  const main = fileURLToPath(new URL("../../src/main.ts", import.meta.url));
  const ran = promisify(execFile)(process.execPath, [main, "check", "--config", "port-text.yaml"], { cwd: folder });
  await expect(ran).rejects.toMatchObject({ code: 78, stdout: "", stderr: `${messages.get("port-text.yaml")}\n` });
});

test.each([
  ["--config", ""],
  ["--set=auth.mode=tokens --set=auth.tokensFile", "command line --set: auth.tokensFile: "],
])("a pipe where a file is expected (%s) is refused, not waited for", async (option, place) => {
  const pipe = join(mkdtempSync(join(tmpdir(), "headgate-check-")), "pipe");
  execFileSync("mkfifo", [pipe]);
  const main = fileURLToPath(new URL("../../src/main.ts", import.meta.url));
  const args = [main, "check", ...`${option}=${pipe}`.split(" ")];
  const ran = promisify(execFile)(process.execPath, args, { timeout: 10_000 });
  await expect(ran).rejects.toMatchObject({
    code: 78,
    stderr: `${place}${pipe}: cannot be read: it is no regular file\n`,
  });
});
