// The metrics that are read at the scrape: connections, the upstream's addresses, what is in use of files, the table of
// clients, lost log lines, and the process. Without TLS, tokens or names they exist too, with values that raise no alert.
import type { TokensInUse } from "../core/authentication.ts";
import type { CounterFigures, PolicyStats } from "../core/limiter.ts";
import type { RuleAction } from "../core/rules.ts";
import type { CertificateInUse } from "../core/settings.ts";
import {
  type AddressFigures,
  type ConnectionFigures,
  type TunnelFigures,
  type UpstreamHealth,
  upstreamErrorReasons,
} from "../core/upstream.ts";
import { type Families, ofProcess } from "./families.ts";

/** What each thread that carries traffic has of its own. */
export interface TrafficSources {
  readonly upstreamConnections: () => ConnectionFigures;
  /** Of request bodies that wait for a connection. */
  readonly waitingBodyBytes: () => number;
  readonly tunnels: () => TunnelFigures;
  readonly upstreamAddresses: () => AddressFigures;
  /** Connections of clients are read into one buffer that all share. */
  readonly sharesReads: () => boolean;
  /** Memory for what is remembered of the last minutes, by part. Default: none. */
  readonly recentBytes?: () => RecentBytes;
}

/** The figures of a thread that carries no traffic. */
export const noTraffic: TrafficSources = {
  upstreamConnections: () => ({ active: 0, idle: 0, waiting: 0 }),
  waitingBodyBytes: () => 0,
  tunnels: () => ({ opening: 0, open: 0 }),
  upstreamAddresses: () => ({
    ...{ available: 0, ejected: 0, ejections: 0, failovers: new Map() },
    ...{ failedLookups: 0, areCurrent: true },
  }),
  sharesReads: () => true,
};

/** `history`: what the main thread has. */
export type RecentBytes = Readonly<Record<"refusals" | "keys" | "history", number>>;

/** What one thread reports for the whole process. */
interface ProcessSources {
  /** Open connections of clients, of all threads. */
  readonly clientConnections: () => number;
  /** Null in a mode without a list of tokens. */
  readonly tokens: () => TokensInUse | null;
  /** Null without TLS. */
  readonly certificate: () => CertificateInUse | null;
  readonly limiter: { stats(): readonly PolicyStats[] };
  /** Of the table of counters. */
  readonly counters: () => CounterFigures;
  /** The share of the requests of the last minute that one client sent; 0 if none sent more than half. */
  readonly busiestClientRatio: () => number;
  readonly upstreamHealth: () => UpstreamHealth;
  /** Of each thread that carries traffic: the time in which its event loop was not idle. */
  readonly activeSeconds: () => readonly number[];
  /** Running totals of log lines of this thread that were not written. */
  readonly logLines: () => LostLines;
  /** Of the rules that were set while the gateway runs. Default: there are none. */
  readonly ruleCounts?: () => Readonly<Record<RuleAction, number>>;
  /** Default: one thread, which accepts connections. */
  readonly threads?: () => ThreadFigures;
  readonly version: string;
  readonly nodeVersion: string;
}

export type ScrapedSources = TrafficSources & ProcessSources;

/** The threads that carry traffic. */
export interface ThreadFigures {
  readonly configured: number;
  /** Those that accept connections. */
  readonly serving: number;
  /** Threads that ended and were replaced. */
  readonly restarts: number;
}

const onlyThread: ThreadFigures = { configured: 1, serving: 1, restarts: 0 };

interface LostLines {
  /** Omitted on purpose, to bound the volume. */
  readonly sampled: number;
  /** Lost because the output was too slow or broken. */
  readonly dropped: number;
}

const byState = { label: "state" } as const;
const byReason = { label: "reason" } as const;

export function scrapedMetrics(families: Families, sources: ScrapedSources): void {
  connectionMetrics(families, sources);
  addressMetrics(families, sources.upstreamAddresses);
  limiterMetrics(families, sources);
  const busiest =
    "Share of the last minute's requests that one client sent; 0 if none sent more than half, or few came.";
  families.gauge("headgate_busiest_client_ratio", busiest, sources.busiestClientRatio, ofProcess);
  const { recentBytes = () => ({ refusals: 0, keys: 0, history: 0 }) } = sources;
  const recent = "Memory for what is remembered of the last minutes: refusals, refused keys, the history, in bytes.";
  families.gauge("headgate_recent_bytes", recent, () => ({ ...recentBytes() }), { label: "part" });
  const rules = "Rules in force that were set while the gateway runs, by what they do.";
  const ruleCounts = sources.ruleCounts ?? (() => ({ block: 0, exempt: 0, limit: 0 }));
  families.gauge("headgate_rules", rules, () => ({ ...ruleCounts() }), { label: "action", ...ofProcess });
  fileMetrics(families, sources);
  threadMetrics(families, sources.threads ?? (() => onlyThread));
  const lost = "Log lines not written: sampled, omitted on purpose; dropped, the output was too slow or broken.";
  families.total("headgate_log_lines_lost_total", lost, () => ({ ...sources.logLines() }), byReason);
  const active = "Time in which the event loop of a worker was not idle; with one thread there is one worker.";
  const byWorker = () => sources.activeSeconds().map((value, i) => ({ labels: { worker: `${i + 1}` }, value }));
  families.total("headgate_event_loop_active_seconds_total", active, byWorker, ofProcess);
  const { version, nodeVersion: node_version } = sources;
  const build = { fixed: { version, node_version }, ...ofProcess };
  families.gauge("headgate_build_info", "Always 1.", () => 1, build);
}

function connectionMetrics(families: Families, sources: ScrapedSources): void {
  families.gauge("headgate_client_connections", "Open connections of clients.", sources.clientConnections, ofProcess);
  const reads = "1 if connections of clients are read into one buffer that all share, 0 if as streams.";
  families.gauge("headgate_shared_reads", reads, () => Number(sources.sharesReads()), { merge: "min" });
  const connections = "Connections to the upstream, active or idle, and requests waiting for one.";
  families.gauge("headgate_upstream_connections", connections, () => ({ ...sources.upstreamConnections() }), byState);
  const waiting = "Memory of request bodies that are received before a connection to the upstream is taken, in bytes.";
  families.gauge("headgate_waiting_body_bytes", waiting, sources.waitingBodyBytes);
  const tunnels = "Tunnels that an Upgrade opened, and upgrades that the upstream has not answered yet.";
  families.gauge("headgate_tunnels", tunnels, () => ({ ...sources.tunnels() }), byState);
  const state = "1 for the state that the last attempt to reach the upstream showed, 0 for the others.";
  const none = { unknown: 0, up: 0, down: 0 };
  const health = () => ({ ...none, [sources.upstreamHealth().state]: 1 });
  families.gauge("headgate_upstream_state", state, health, { ...byState, ...ofProcess });
}

function addressMetrics(families: Families, addresses: () => AddressFigures): void {
  const help = "Addresses of the upstream: available, or ejected because connections to them failed.";
  const states = () => ({ available: addresses().available, ejected: addresses().ejected });
  families.gauge("headgate_upstream_addresses", help, states, { ...byState, ...ofProcess });
  const failovers = "Requests sent to another address because the gateway could not connect to the first, by reason.";
  const none = Object.fromEntries(upstreamErrorReasons.map((reason) => [reason, 0]));
  const failedOver = () => {
    const { available, ejected, failovers: counted } = addresses();
    // With one address there are none.
    return { ...(available + ejected > 1 ? none : {}), ...Object.fromEntries(counted) };
  };
  families.total("headgate_upstream_failovers_total", failovers, failedOver, byReason);
  const ejections = "Times an address of the upstream was ejected.";
  families.total("headgate_upstream_ejections_total", ejections, () => addresses().ejections);
  const lookups = "Lookups of the upstream's names that failed.";
  families.total("headgate_upstream_lookups_failed_total", lookups, () => addresses().failedLookups);
  const current = "1 while the last lookup of every name of the upstream succeeded.";
  families.gauge("headgate_upstream_names_current", current, () => Number(addresses().areCurrent), { merge: "min" });
}

/** What the policies have decided, and the table of counters, which all threads share. */
function limiterMetrics(families: Families, { limiter, counters }: ScrapedSources): void {
  const decided =
    "Decisions by policy and outcome; observed: not charged, because another policy refused or no route fits.";
  const ofPolicy = ({ policy: { name: policy }, outcomes }: PolicyStats) =>
    Object.entries(outcomes).map(([outcome, value]) => ({ labels: { policy, outcome }, value }));
  families.total("headgate_decisions_total", decided, () => limiter.stats().flatMap(ofPolicy), ofProcess);
  const byPolicy = (figure: "keys" | "coarse" | "merged" | "forgiven") => () =>
    counters().policies.map((figures) => ({ labels: { policy: figures.policy }, value: figures[figure] }));
  const memory = "Memory for all counters: used, or free for new keys, in bytes.";
  const states = () => ({ used: counters().usedBytes, free: counters().freeBytes });
  families.gauge("headgate_counters_memory_bytes", memory, states, { ...byState, ...ofProcess });
  const tracked = "Keys whose requests are remembered now: clients, unless the policy says otherwise.";
  families.gauge("headgate_clients_tracked", tracked, byPolicy("keys"), ofProcess);
  const coarse = "Clients and networks that are counted as one, because the memory is full of exhausted keys.";
  families.gauge("headgate_coarse_keys", coarse, byPolicy("coarse"), ofProcess);
  const merged = "Admissions whose time was rounded up to a later one of their key, because no memory was free.";
  families.total("headgate_admissions_merged_total", merged, byPolicy("merged"), ofProcess);
  const forgiven = "Keys whose counted requests were forgotten because an operator has forgiven them.";
  families.total("headgate_forgiven_keys_total", forgiven, byPolicy("forgiven"), ofProcess);
  const evictions = "Keys forgotten: expired, none of their requests counted any more; live, the memory was full.";
  const evicted = () =>
    counters().policies.flatMap(({ policy, evictedExpired, evictedLive }) => [
      { labels: { policy, reason: "expired" }, value: evictedExpired },
      { labels: { policy, reason: "live" }, value: evictedLive },
    ]);
  families.total("headgate_evictions_total", evictions, evicted, ofProcess);
}

function fileMetrics(families: Families, { certificate, tokens }: ScrapedSources): void {
  const isCurrent = (inUse: { readonly isCurrent: boolean } | null): number => Number(inUse?.isCurrent ?? true);
  const expiry = "When the certificate in use expires, in Unix seconds; 0 without TLS.";
  const expires = () => (certificate()?.expiresMs ?? 0) / 1000;
  families.gauge("headgate_tls_certificate_expiry_timestamp_seconds", expiry, expires, ofProcess);
  const files = "1 while the current certificate files are in use, 0 while they are missing or invalid; 1 without TLS.";
  families.gauge("headgate_tls_certificate_current", files, () => isCurrent(certificate()), ofProcess);
  const listed = "Tokens that are accepted if auth.mode is tokens; 0 in the other modes.";
  families.gauge("headgate_tokens_listed", listed, () => tokens()?.listed ?? 0, ofProcess);
  const ending = "Listed tokens that end within 14 days, or have ended; 0 if tokens are not verified.";
  families.gauge("headgate_tokens_ending", ending, () => tokens()?.ending() ?? 0, ofProcess);
  const list = "1 while the current tokens file is in use, 0 while it is missing or invalid; 1 in the other modes.";
  families.gauge("headgate_tokens_file_current", list, () => isCurrent(tokens()), ofProcess);
}

function threadMetrics(families: Families, threads: () => ThreadFigures): void {
  const help = "Threads that carry traffic: as configured, and those that accept connections now.";
  const states = () => ({ configured: threads().configured, serving: threads().serving });
  families.gauge("headgate_workers", help, states, { ...byState, ...ofProcess });
  const ended = "Threads that ended without being asked to, each of which is replaced.";
  families.total("headgate_worker_restarts_total", ended, () => threads().restarts, ofProcess);
}
