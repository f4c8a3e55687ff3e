// Small mistakes that a developer could make, each of which a user could notice. They measure the tests: `run.ts` puts one
// after the other into a copy of the sources, and says which test finds it. None may be found by the compiler or the linter.
import type { Replacement } from "../support/replacement.ts";

export type BreakRoom = "limits" | "http" | "exchange" | "upstream" | "gateway" | "config";

export interface Break extends Replacement {
  readonly id: string;
  readonly room: BreakRoom;
  /** What a user notices of it. */
  readonly sees: string;
}

/** The tests that are tried first, because they are about the same part. */
export const near: Readonly<Record<BreakRoom, readonly string[]>> = {
  limits: ["test/limits", "test/simulation", "test/snapshots"],
  http: ["test/http1", "test/http2", "test/transport"],
  exchange: ["test/exchange", "test/transport", "test/pipeline"],
  upstream: ["test/upstream"],
  gateway: ["test/gateway", "test/admin", "test/runtime-rules", "test/reload"],
  config: ["test/config", "test/commands"],
};

type Written = Omit<Break, "id" | "room">;

const limits: readonly Written[] = [
  {
    file: "src/limits/refusal-buckets.ts",
    from: "bucket.take(Math.max(0, rate.burst - before.left));",
    to: "bucket.take(Math.max(0, this.#rate.burst - before.left));",
    sees: "After a reload that raises refusals.burst, a client that has spent its budget has one again.",
  },
  {
    file: "src/limits/calendar-counters.ts",
    from: "(before.per === calendar?.per && before.timezone === calendar.timezone)",
    to: "before.per === calendar?.per",
    sees: "A reload to another time zone leaves the end of the period that is under way where it was.",
  },
  {
    file: "src/limits/counters.ts",
    from: "table.markExhausted(cursor, ask.remaining < this.rules.cost);",
    to: "table.markExhausted(cursor, ask.remaining === 0);",
    sees: "With a cost of several units, an exhausted client is forgotten as early as any other, and starts again.",
  },
  {
    file: "src/limits/counters.ts",
    from: "return this.#expiryOf(ask, Math.min(counted, Math.max(1, counted + ask.units - ask.limit)), window);",
    to: "return this.#expiryOf(ask, 1, window);",
    sees: "After a limit was lowered, the reset that is shown comes before the instant at which a request fits.",
  },
  {
    file: "src/limits/slot-counters.ts",
    from: "    if (ask.mayEndSoon) ask.resetMs = ask.nowMs + heldRetryMs;\n",
    to: "",
    sees: "A client that is refused because of held units alone is told to wait for the whole window.",
  },
  {
    file: "src/limits/named-keys.ts",
    from: "cidr.prefixBits < (isIpv4(cidr.network) ? 128 : ipv6Prefix)",
    to: "cidr.prefixBits < (isIpv4(cidr.network) ? 120 : ipv6Prefix)",
    sees: "Forgiving 203.0.113.0/24 forgives one address of it without a word.",
  },
  {
    file: "src/limits/quota-questions.ts",
    from: 'const state = remaining < policy.cost ? "exhausted" : "open";',
    to: 'const state = remaining === 0 ? "exhausted" : "open";',
    sees: "The quota of a caller says open although no request fits any more, where one costs several units.",
  },
  {
    file: "src/limits/store/redis/link.ts",
    from: "(a, b) => b.epoch - a.epoch",
    to: "(a, b) => a.epoch - b.epoch",
    sees: "During a failover the gateway believes the sentinel that is behind, and stays with the old primary.",
  },
  {
    file: "src/limits/snapshot/file.ts",
    from: "/^[0-9a-f]{16}\\.tmp$/",
    to: "/^[0-9a-f]{8}\\.tmp$/",
    sees: "Temporary files of processes that were killed while they wrote a snapshot stay for ever.",
  },
  {
    file: "src/limits/key-listing.ts",
    from: "remaining: Math.max(0, named.limit - used),",
    to: "remaining: named.limit - used,",
    sees: "After a limit was lowered, the list of clients shows that fewer than no units are left.",
  },
];

const http: readonly Written[] = [
  {
    file: "src/http1/response-head.ts",
    from: "this.#closes ||= connectionLogin.test(value);",
    to: "this.#closes = connectionLogin.test(value);",
    sees: "Behind a login of the connection, a second WWW-Authenticate lets other clients use that connection.",
  },
  {
    file: "src/http1/response-parser.ts",
    from: "    if (head.status === 408) this.#mayContinue = false;\n",
    to: "",
    sees: "The late answer to a request that an upstream answered with 408 goes to the next client.",
  },
  {
    file: "src/http1/response-parser.ts",
    from: 'if (framing !== "none" && framing !== 0) this.#mayContinue = false;',
    to: 'if (framing === "chunked") this.#mayContinue = false;',
    sees: "The body that an upstream sends to a HEAD is read as the next response.",
  },
  {
    file: "src/http1/body-decoder.ts",
    from: 'const isFraming = name === "content-length" || name === "transfer-encoding";',
    to: 'const isFraming = name === "content-length";',
    sees: "A Transfer-Encoding among the trailers of a request is dropped, and not refused.",
  },
  {
    file: "src/http1/request-head.ts",
    from: "asksToUpgrade: hasUpgrade && namesUpgrade && bodyBytes === 0,",
    to: "asksToUpgrade: hasUpgrade && namesUpgrade,",
    sees: "A request with a body and an Upgrade closes its connection, or becomes a tunnel.",
  },
  {
    file: "src/http1/request-head.ts",
    from: "return this.#countedBytes < this.#bounds.maxBytes ? null : this.#tooLarge();",
    to: "return this.#countedBytes <= this.#bounds.maxBytes ? null : this.#tooLarge();",
    sees: "A head that comes in pieces may have one byte more than one that comes at once.",
  },
  {
    file: "src/http2/field-rules.ts",
    from: 'return path.startsWith("/") || (path === "*" && method === "OPTIONS");',
    to: 'return path.startsWith("/") || path === "*";',
    sees: "A GET of * over HTTP/2 is not refused as malformed.",
  },
  {
    file: "src/http2/frame-reader.ts",
    from: "this.#peers.get(key) ?? this.#remembered.get(key);",
    to: "this.#peers.get(key);",
    sees: "A peer that floods with frames has a new budget as soon as it connects again.",
  },
  {
    file: "src/http2/session.ts",
    from: "    this.#responses.writer.goaway(this.#lastStream);\n",
    to: "    this.#responses.writer.goaway(maxStreamId);\n",
    sees: "A client does not learn which requests a drain has left out, and does not send them again.",
  },
  {
    file: "src/http2/session.ts",
    from: "    this.#reader.points += requestPoints;\n    this.reset(stream, errorCodes.refusedStream);",
    to: "    this.reset(stream, errorCodes.refusedStream);",
    sees: "Streams beyond the bound cost a client nothing, so it can open them without an end.",
  },
];

const exchange: readonly Written[] = [
  {
    file: "src/exchange/exchange.ts",
    from: "    this.#held = null;\n    this.#end(true);",
    to: "    this.#end(true);",
    sees: "A WebSocket frees its slot of a policy with concurrency when it opens, and not when it ends.",
  },
  {
    file: "src/exchange/exchange.ts",
    from: '    if (decision.outcome !== "admitted") return null;\n',
    to: "",
    sees: "A 429 of the upstream to an exempt client has the wait of a quota that does not concern it.",
  },
  {
    file: "src/exchange/exchange.ts",
    from: 'exposed === "" || lines.includes(exposed) || !letsPagesRead(lines)',
    to: 'exposed === "" || !letsPagesRead(lines)',
    sees: "A response that already lists the headers for pages has Access-Control-Expose-Headers twice.",
  },
  {
    file: "src/exchange/exchange.ts",
    from: "    } finally {\n      this.#waiting.delete(this);\n    }",
    to: "    }",
    sees: "With a shared store, memory grows with each request whose decision was waited for.",
  },
  {
    file: "src/exchange/exchange.ts",
    from: "      this.problem = localReplies.tooManyRefusals.reason;\n",
    to: "",
    sees: "A connection that is closed because of too many bad requests has no reason in the log and the metrics.",
  },
  {
    file: "src/transport/http1/http1-connection.ts",
    from: "this.#requests === 0 && !this.peer.isTrusted;",
    to: "this.#requests === 0;",
    sees: "Connections that a trusted proxy keeps ready are closed after timeouts.head.",
  },
  {
    file: "src/transport/http1/http1-connection.ts",
    from: "this.#requests >= accepted.bounds.maxRequestsPerConnection",
    to: "this.#requests > accepted.bounds.maxRequestsPerConnection",
    sees: "A connection carries one request more than listen.maxRequestsPerConnection.",
  },
  {
    file: "src/transport/http1/http1-transport.ts",
    from: 'if (this.#isVersion0() || this.#head !== "" || this.#isHeadWritten) return;',
    to: 'if (this.#head !== "" || this.#isHeadWritten) return;',
    sees: "A client of HTTP/1.0 gets a 103 and takes it for the response.",
  },
  {
    file: "src/transport/http2/stream-body.ts",
    from: "    this.#owner.used(this.#waiting.take().length);",
    to: "    this.#waiting.take();",
    sees: "After a few uploads that were refused, no upload on that HTTP/2 connection goes on.",
  },
  {
    file: "src/transport/http1/http1-connection.ts",
    from: '{ ...localReplies.slowRequest, detail: "timeouts.head" }',
    to: "localReplies.slowRequest",
    sees: "The log line of a 408 does not name the timeout that was exceeded.",
  },
];

const upstream: readonly Written[] = [
  {
    file: "src/upstream/forward.ts",
    from: '(method === "GET" || method === "HEAD" || method === "QUERY")',
    to: '(method === "GET" || method === "QUERY")',
    sees: "A HEAD on an idle connection that the upstream closes at that moment is answered with 502.",
  },
  {
    file: "src/upstream/forward.ts",
    from: "if (this.#interimResponses > maxInterimResponses)",
    to: "if (this.#interimResponses >= maxInterimResponses)",
    sees: "The sixteenth interim response of an upstream becomes a 502.",
  },
  {
    file: "src/upstream/forward.ts",
    from: '(reason === "reset" || reason === "closed_early")',
    to: 'reason === "reset"',
    sees: "A GET on an idle connection that the upstream ends at that moment is answered with 502.",
  },
  {
    file: "src/upstream/tunnels.ts",
    from: "      holding.reclaimable?.delete(tunnel);\n",
    to: "",
    sees: "More than upgrade.maxTunnels are open, because one that has ended is closed in place of another.",
  },
  {
    file: "src/upstream/tunnels.ts",
    from: "      this.#movedMs = this.#options.nowMs();\n      this.#timer.refresh();\n",
    to: "      this.#timer.refresh();\n",
    sees: "For another client the oldest WebSocket is closed, and not the one that has been idle longest.",
  },
  {
    file: "src/upstream/endpoints.ts",
    from: "(fault === null) === isHealthy ? 0 : this.#contraryChecks + 1;",
    to: "(fault === null) === isHealthy ? this.#contraryChecks : this.#contraryChecks + 1;",
    sees: "Three failed health checks in all, hours apart, take an address out.",
  },
  {
    file: "src/upstream/health-check.ts",
    from: "status >= 200 && status < 400 ? null",
    to: "status >= 200 && status < 500 ? null",
    sees: "An address whose health check says 404 counts as healthy.",
  },
  {
    file: "src/upstream/name-lookup.ts",
    from: '      if (addresses.length === 0) throw new Error("The name has no address.");\n',
    to: "",
    sees: "A name that has no address for a moment takes away all addresses of the upstream.",
  },
  {
    file: "src/upstream/min-rate-timeout.ts",
    from: `    const { bodyTimeoutMs, bodyBytesPerSecond } = this.#options;
    this.#countDown();
    this.#bytes += bytes;
    this.#leftMs = Math.min(bodyTimeoutMs, this.#leftMs + (bytes / bodyBytesPerSecond) * 1000);
`,
    to: `    const { bodyBytesPerSecond } = this.#options;
    this.#countDown();
    this.#bytes += bytes;
    this.#leftMs += (bytes / bodyBytesPerSecond) * 1000;
`,
    sees: "A client that uploads fast at first may then stand still for hours.",
  },
  {
    file: "src/upstream/request-fields.ts",
    from: 'lower === "max-forwards" && method === "OPTIONS" ? oneLess(value) : value',
    to: 'lower === "max-forwards" && method !== "GET" ? oneLess(value) : value',
    sees: "Max-Forwards of a POST, which means nothing, reaches the upstream changed.",
  },
];

const gateway: readonly Written[] = [
  {
    file: "src/admin/access.ts",
    from: "const port = asked.port ?? (isTls ? 443 : 80);",
    to: "const port = asked.port ?? (isTls && hosts.length > 0 ? 443 : 80);",
    sees: "Without admin.hosts, the admin API over TLS on port 443 refuses a Host without a port as another's.",
  },
  {
    file: "src/admin/event-streams.ts",
    from: "    if (this.#timer !== null) clearInterval(this.#timer);\n",
    to: "",
    sees: "Each console that was open leaves a timer behind, and others are kept alive twice as often.",
  },
  {
    file: "src/admin/unix-socket.ts",
    from: "await chmod(made, 0o600);",
    to: "await chmod(made, 0o660);",
    sees: "The group of the gateway's user can use the admin socket, which asks for no token.",
  },
  {
    file: "src/gateway/control/rule-control.ts",
    from: "const mostAttempts = 3;",
    to: "const mostAttempts = 1;",
    sees: "A rule with If-Match: * is refused with 412 if another gateway changes it at that moment.",
  },
  {
    file: "src/gateway/rule-input.ts",
    from: `  const listed = [
    { key: "clientAddress.trustedProxies", networks: settings.clientAddress.trustedProxies },
    { key: "extAuth.trustedCallers", networks: settings.extAuth.trustedCallers },
  ];`,
    to: '  const listed = [{ key: "clientAddress.trustedProxies", networks: settings.clientAddress.trustedProxies }];',
    sees: "A rule that blocks the ingress is set without force.",
  },
  {
    file: "src/gateway/rule-input.ts",
    from: "limit >= least && limit <= most",
    to: "limit >= 1 && limit <= most",
    sees: "A rule may set a limit below the cost of a request, which blocks the client.",
  },
  {
    file: "src/gateway/configuration.ts",
    from: `    const { log, clock, telemetry, settings, runtimeRules } = this.#context;
    const before = this.#configuration;
    this.#configuration = next;
    settings.current = next.settings;
    runtimeRules.ipv6Prefix = next.settings.clientAddress.ipv6Prefix;
`,
    to: `    const { log, clock, telemetry, settings } = this.#context;
    const before = this.#configuration;
    this.#configuration = next;
    settings.current = next.settings;
`,
    sees: "After a reload of clientAddress.ipv6Prefix, rules are found by the prefix from before.",
  },
  {
    file: "src/gateway/configuration.ts",
    from: "    this.#current.retire();\n",
    to: "",
    sees: "After a reload the upstream before is still looked up, checked and kept connected.",
  },
  {
    file: "src/gateway/control/client-control.ts",
    from: "if (known !== undefined && known.startMs <= nowMs && nowMs < known.endMs) return known;",
    to: "if (known !== undefined && known.startMs <= nowMs) return known;",
    sees: "In the next month, a client's state still shows the month before.",
  },
  {
    file: "src/gateway/control/config-answer.ts",
    from: "    put(values, path, inForce);\n    return { key,",
    to: "    put(values, path, shown(raw.root));\n    return { key,",
    sees: "The configuration in force shows values that a restart alone would put into force.",
  },
];

const config: readonly Written[] = [
  {
    file: "src/config/changes.ts",
    from: '    "counters.snapshot.every": snapshot?.everyMs,\n',
    to: "",
    sees: "A reload does not say that a new counters.snapshot.every needs a restart.",
  },
  {
    file: "src/config/changes.ts",
    from: "return isWeaker || other.scopes.some((scope) => !one.scopes.includes(scope));",
    to: "return isWeaker;",
    sees: "A reload that takes a rule with a scope away does not warn that it gives up protection.",
  },
  {
    file: "src/config/warnings.ts",
    from: "extAuth?.http || extAuth?.grpc ? wideShare",
    to: "extAuth?.http ? wideShare",
    sees: "Trusting every caller over gRPC alone gets no warning.",
  },
  {
    file: "src/config/leaves.ts",
    from: "  KB: 1000,\n",
    to: "  KB: 1024,\n",
    sees: "A size of 64KB is another one than 64kB.",
  },
  {
    file: "src/config/files.ts",
    from: "if (kind.size > maxMebibytes * 1024 * 1024) {",
    to: "if (kind.size > maxMebibytes * 1000 * 1000) {",
    sees: "A file of 62 MiB is refused as larger than 64 MiB.",
  },
  {
    file: "src/config/files.ts",
    from: "this.next = this.isCurrent ? null : { texts, value: this.value };",
    to: "this.next = null;",
    sees: "A file that was wrong and is again what is in use counts as wrong until the next change.",
  },
  {
    file: "src/config/listeners.ts",
    from: '  if (hosts.some((host) => canonical(host) === "localhost"))\n    return hosts.every((host) => isLoopback(host) || isAny(host));',
    to: '  if (hosts.some((host) => canonical(host) === "localhost")) return hosts.every(isLoopback);',
    sees: "One port on localhost and on 0.0.0.0 is accepted, and the start fails.",
  },
  {
    file: "src/config/counters.ts",
    from: "passwordFile: sentinels.passwordFile ?? passwordFile }",
    to: "passwordFile: passwordFile ?? sentinels.passwordFile }",
    sees: "Sentinels with a password of their own are asked with that of the store.",
  },
  {
    file: "src/config/written.ts",
    from: '.replace(/:\\/\\/.*@/s, "://***@")',
    to: '.replace(/:\\/\\/[^/]*@/s, "://***@")',
    sees: "The message about a wrong URL shows a password that contains a slash.",
  },
  {
    file: "src/config/effective.ts",
    from: 'return typeof raw.value === "boolean" ? node.parse(raw.value) : raw.value;',
    to: "return raw.value;",
    sees: "headgate check shows false for a key whose word is off.",
  },
];

const rooms = { limits, http, exchange, upstream, gateway, config };

export const breaks: readonly Break[] = (Object.keys(rooms) as BreakRoom[]).flatMap((room) =>
  rooms[room].map((written, i) => ({ id: `${room}-${i + 1}`, room, ...written })),
);
