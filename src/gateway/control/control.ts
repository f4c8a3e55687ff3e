// Answers for the admin API, and does what it asks: what runs, with which configuration, and what policies have said. Puts
// the seams of rules, clients and recent requests together with what people write.
import { X509Certificate } from "node:crypto";
import type {
  ClientControl,
  Config,
  ConfirmAnswer,
  ControlEvent,
  ControlPlane,
  ControlResult,
  DrainAnswer,
  Health,
  PolicyList,
  RecentRequests,
  ReloadAnswer,
  ReloadWanted,
  RuleControl,
  Status,
} from "../../admin/control-plane.ts";
import { parseDuration } from "../../config/leaves.ts";
import { isTokenDigest } from "../../config/policies.ts";
import { endingSoonMs, type ListedTokens } from "../../core/authentication.ts";
import type { Clock } from "../../core/clock.ts";
import { counterText } from "../../core/counter-key.ts";
import type { Watched } from "../../core/file-group.ts";
import { formatIpAddress } from "../../core/ip-address.ts";
import type { PolicyStats } from "../../core/limiter.ts";
import { keyPartText } from "../../core/policy.ts";
import {
  type ReloadCause,
  type ReloadResult,
  type ReloadTrial,
  reloadOutcome,
  type TrialEvent,
  type TrialTerms,
} from "../../core/reload.ts";
import type { ForgivenKey } from "../../core/rules.ts";
import type { Certificate } from "../../core/settings.ts";
import { PossibleProxies } from "../../telemetry/recent/possible-proxies.ts";
import type { Recent } from "../../telemetry/recent/recent.ts";
import { shownChanges } from "../../telemetry/reloads.ts";
import type { Forgave } from "../forgiving.ts";
import type { ThreadCounters } from "../open-counters.ts";
import type { Reloader } from "../reloader.ts";
import type { RuleBook } from "../rule-book.ts";
import { loggedName } from "../runtimes.ts";
import type { Sharing } from "../sharing.ts";
import type { Workers } from "../workers.ts";
import type { AdminFiles } from "./admin-files.ts";
import { createClientControl } from "./client-control.ts";
import { configAnswer } from "./config-answer.ts";
import { ControlEvents, type States } from "./control-events.ts";
import { createRecentControl } from "./recent-control.ts";
import { createRuleControl } from "./rule-control.ts";

export interface ControlOptions {
  readonly workers: Workers;
  readonly recent: Recent;
  readonly rules: RuleBook;
  readonly counters: ThreadCounters;
  /** As in ClientControlOptions. */
  readonly forgive: (key: ForgivenKey) => Promise<Forgave | null>;
  /** Null: gateways share nothing. */
  readonly sharing: Pick<Sharing, "presence" | "rules"> | null;
  readonly clock: Clock;
  readonly version: string;
  readonly nodeVersion: string;
  readonly adminFiles: AdminFiles;
  readonly reloader: Reloader;
  readonly drain: () => void;
}

interface LastReload {
  readonly atMs: number;
  readonly by: ReloadCause;
  /** Null: nobody has asked for it, or a program. */
  readonly caller: string | null;
  readonly result: ReloadResult;
}

export class GatewayControl implements ControlPlane {
  readonly recent: RecentRequests;
  readonly clients: ClientControl;
  readonly rules: RuleControl;
  readonly startedWallMs: number;
  #state: Health["status"] = "starting";
  readonly #options: ControlOptions;
  readonly #startedMs: number;
  readonly #events: ControlEvents;
  #config: {
    readonly loadedMs: number;
    readonly loadedBy: Status["config"]["loadedBy"];
    readonly restart: readonly string[];
  };
  #isConfigCurrent = true;
  #lastReload: LastReload | null = null;
  /** The last that has changed something. */
  #lastChange: LastReload | null = null;
  /** The last trial that is over. */
  #lastTrial: Status["lastTrial"] = null;

  constructor(options: ControlOptions) {
    const { clock, workers, recent, rules, forgive } = options;
    this.#options = options;
    this.#startedMs = clock.monotonicMs();
    this.startedWallMs = clock.wallMs();
    this.#config = { loadedMs: this.startedWallMs, loadedBy: "start", restart: [] };
    const settings = () => workers.settings;
    const listedTokens = () => workers.listedTokens();
    this.rules = createRuleControl({
      keeper: rules,
      context: () => ({ settings: settings(), listed: listedTokens() }),
    });
    this.clients = createClientControl({
      ...{ clients: workers.main.clients, recent, settings, listedTokens, forgive },
      ...{ rules: this.rules, inForce: rules.inForce, wallMs: clock.wallMs },
      // A gateway that is gone is counted for half a minute.
      isShared: () => (workers.serving.telemetry.storeHealth()?.replicas ?? 1) > 1,
    });
    this.recent = createRecentControl({
      ...{ recent, settings },
      keyText: (key) => counterText(key, settings().clientAddress.ipv6Prefix),
      loggedName: (name) => this.#loggedName(name),
    });
    const sources = { clock, rules, recent: this.recent, control: this.rules };
    this.#events = new ControlEvents({ ...sources, states: () => this.#states() });
    options.reloader.subscribe({
      reloaded: (...reloaded) => this.#reloaded(...reloaded),
      trialChanged: (event) => this.#trialChanged(event),
    });
  }

  async status(): Promise<Status> {
    const { workers, clock, version, nodeVersion, adminFiles, reloader } = this.#options;
    const { trial } = reloader;
    const { loadedMs, loadedBy, restart } = this.#config;
    const last = this.#lastReload;
    const list = workers.listedTokens();
    const wallMs = clock.wallMs();
    const proxies = new PossibleProxies(workers.serving.recent.memory).named(clock.monotonicMs());
    return {
      ...{ version, nodeVersion, state: this.#state },
      started: isoTime(this.startedWallMs),
      uptimeSeconds: Math.round(clock.monotonicMs() - this.#startedMs) / 1000,
      config: {
        ...{ loaded: isoTime(loadedMs), loadedBy, isCurrent: this.#isConfigCurrent, restart: [...restart] },
        lastReload: last && summaryOf(last),
      },
      trial: trial && trialFacts(trial),
      lastTrial: this.#lastTrial,
      workers: workers.serving.figures,
      // A reload may have made one a trusted proxy.
      possibleProxies: proxies
        .filter((proxy) => !workers.main.configuration.clientAddress.trustedProxies.has(proxy))
        .map(formatIpAddress),
      ...this.#states(),
      certificate: certificateFacts(workers.main.configuration.files.certificate, wallMs),
      adminCertificate: certificateFacts(adminFiles.certificate, wallMs),
      tokens: list && tokenFacts(list, wallMs),
    };
  }

  async policies(): Promise<PolicyList> {
    const { workers } = this.#options;
    return { enforcement: workers.settings.enforcement, policies: workers.serving.policyStats().map(policyFacts) };
  }

  async config(against: "previous" | null): Promise<Config> {
    const { workers, reloader } = this.#options;
    const names = workers.listedTokens()?.names() ?? new Set();
    const answer = configAnswer(reloader.written, this.#config.restart, names);
    const shown: Config = { loaded: isoTime(this.#config.loadedMs), ...answer };
    if (against === null) return shown;
    const last = this.#lastChange;
    const lastReload = last && { at: isoTime(last.atMs), by: last.by, caller: last.caller, ...changesOf(last.result) };
    return { ...shown, lastReload, lastTrial: this.#lastTrial };
  }

  async reload(wanted: ReloadWanted, by: string): Promise<ControlResult<ReloadAnswer>> {
    const terms = readTerms(wanted);
    if (typeof terms === "string") return { ok: false, why: "unacceptable", details: [terms] };
    if (this.#state === "starting") return conflict("The gateway is starting.");
    const { reloader } = this.#options;
    return this.#answerTo(wanted.dryRun === true ? reloader.preview() : await reloader.again("call", terms, by));
  }

  async confirm(by: string): Promise<ControlResult<ConfirmAnswer>> {
    const confirmed = await this.#options.reloader.confirm(by);
    return confirmed === null ? conflict(noTrial) : { ok: true, value: { confirmed: trialFacts(confirmed) } };
  }

  async takeBack(by: string): Promise<ControlResult<ReloadAnswer>> {
    const result = await this.#options.reloader.takeBack(by);
    return result === null ? conflict(noTrial) : this.#answerTo(result);
  }

  #answerTo(result: ReloadResult): ControlResult<ReloadAnswer> {
    const { errors, refused, restart } = result;
    const { trial } = this.#options.reloader;
    if (!result.ok) {
      const wrongFiles = refused.map(
        (key) => `${key}: the file is missing or wrong, its last good version stays in use`,
      );
      const onTrial = trial === null ? [] : [`A reload is on trial until ${isoTime(trial.endsMs)}.`];
      return conflict(...errors, ...wrongFiles, ...onTrial);
    }
    const outcome = reloadOutcome(result) === "applied" ? "applied" : "unchanged";
    const facts = { restart: [...restart], trial: trial && trialFacts(trial) };
    return { ok: true, value: { outcome, ...changesOf(result), ...facts } };
  }

  drain(): void {
    this.#options.drain();
  }

  drainTimes(): DrainAnswer {
    const { delayMs, timeoutMs } = this.#options.workers.settings.drain;
    return { state: "draining", delaySeconds: delayMs / 1000, timeoutSeconds: timeoutMs / 1000 };
  }

  subscribe(onEvent: (event: ControlEvent) => void): () => void {
    return this.#events.subscribe(onEvent);
  }

  /** Returns the health for an orchestrator. */
  health(): Health {
    const { workers, clock, sharing } = this.#options;
    const { telemetry } = workers.serving;
    const isReady = this.#state !== "ready" || workers.serving.figures.serving > 0;
    const list = workers.listedTokens();
    return {
      status: isReady ? this.#state : "starting",
      tokens: list && tokenFacts(list, clock.wallMs()),
      rules: sharing && { state: sharing.rules.figures().state },
      ...{ upstream: telemetry.upstreamHealth(), store: telemetry.storeHealth() },
    };
  }

  /** The traffic is served, and the configuration can be reloaded. */
  started(): void {
    this.#state = "ready";
  }

  #reloaded(result: ReloadResult, by: ReloadCause, caller: string | null): void {
    const last: LastReload = { atMs: this.#options.clock.wallMs(), by, caller, result };
    this.#lastReload = last;
    if (result.changed.length > 0) this.#lastChange = last;
    if (result.isConfigRead) {
      const isInForce = result.errors.length === 0;
      // After a take-back, the file has other values.
      this.#isConfigCurrent = isInForce && by !== "trial";
      if (isInForce) this.#config = { loadedMs: last.atMs, loadedBy: by, restart: result.restart };
    }
    this.#events.publish({ type: "reload", ...summaryOf(last), changed: [...result.changed] });
  }

  #trialChanged({ kind, reason, by, trial: state }: TrialEvent): void {
    // A drain has an event of its own, which is the last.
    if (kind === "drained") return;
    const at = isoTime(this.#options.clock.wallMs());
    const trial = trialFacts(state);
    if (kind !== "begun") this.#lastTrial = { at, outcome: kind, reason, by, trial };
    this.#events.publish({ type: "trial", at, outcome: kind, reason, by, trial });
  }

  /** A drain has begun. Streams of events end. */
  draining(): void {
    this.#state = "draining";
    this.#events.publish({ type: "drain", at: isoTime(this.#options.clock.wallMs()) });
  }

  close(): void {
    this.#events.close();
  }

  /** As the log has it. */
  #loggedName(name: string): string | null {
    const { counters, workers } = this.#options;
    // A thread may have got the secret of all gateways from the store.
    counters.keyHash.replaceKey(counters.keySecret);
    return loggedName(name, workers.settings.log.subject, counters.keyHash);
  }

  #states(): States {
    const { workers, sharing } = this.#options;
    const store = workers.serving.telemetry.storeHealth();
    const shared = workers.settings.counters.redis?.store;
    return {
      upstream: {
        ...workers.serving.telemetry.upstreamHealth(),
        addresses: workers.serving.addressStates().map(({ address, ejectedFor, active }) => {
          return { address, state: ejectedFor === null ? "available" : "ejected", reason: ejectedFor, active };
        }),
        lastMinutes: this.recent.upstream(),
      },
      store: store && {
        ...{ state: store.state, since: store.sinceMs === null ? null : isoTime(store.sinceMs) },
        onFailure: shared?.onFailure ?? "local",
        ...{ shards: { ...store.shards }, replicas: store.replicas },
        gateways: (sharing?.presence.gateways() ?? []).map(({ startedMs, ...facts }) => ({
          ...facts,
          started: isoTime(startedMs),
        })),
      },
    };
  }
}

function conflict(...details: readonly string[]): Extract<ControlResult<never>, { ok: false }> {
  return { ok: false, why: "conflict", details };
}

const noTrial = "No reload is on trial.";

const shortestTrialMs = 1_000;
const longestTrialMs = 86_400_000;

/** Returns null for a reload that is not on trial, or what is wrong with the terms. */
function readTerms({ confirmWithin, unless, unconfirmed }: ReloadWanted): TrialTerms | null | string {
  if (confirmWithin === undefined) {
    const alone = unless === undefined ? (unconfirmed === undefined ? null : "unconfirmed") : "unless";
    return alone && `${alone}: found without confirmWithin, which makes it a trial`;
  }
  const confirmWithinMs = parseDuration(confirmWithin) ?? 0;
  if (confirmWithinMs < shortestTrialMs || confirmWithinMs > longestTrialMs) {
    return `confirmWithin: found ${JSON.stringify(confirmWithin)}, expected a duration from 1s to 24h`;
  }
  return { confirmWithinMs, refusedShare: unless?.refusedShare ?? null, unconfirmed: unconfirmed ?? "takeBack" };
}

function trialFacts(trial: ReloadTrial): NonNullable<Status["trial"]> {
  const { sinceMs, endsMs, cause, by, unconfirmed, refusedShare, judged, refused, changed, changes } = trial;
  const differing = { changed: [...changed], changes: shownChanges(changes) };
  const facts = { cause, by, unconfirmed, refusedShare, judged, refused, ...differing };
  return { since: isoTime(sinceMs), ends: isoTime(endsMs), ...facts };
}

function summaryOf({ atMs, by, caller, result }: LastReload) {
  const { errors, refused } = result;
  const wrong = { errors: [...errors], refused: [...refused] };
  return { at: isoTime(atMs), by, caller, outcome: reloadOutcome(result), ...wrong };
}

function changesOf({ changed, changes, reset, loosened }: ReloadResult) {
  return {
    changed: [...changed],
    changes: changes.map(({ key, from, to }) => ({ key, from, to })),
    reset: [...reset],
    loosened: [...loosened],
  };
}

function tokenFacts(list: ListedTokens, wallMs: number) {
  return { listed: list.size, ending: list.endingBefore(wallMs + endingSoonMs).length };
}

function certificateFacts(watched: Watched<Certificate> | null, wallMs: number): Status["certificate"] {
  if (watched === null) return null;
  const { cert, expiresMs } = watched.value;
  return {
    subject: new X509Certificate(cert).subject.replaceAll("\n", ", "),
    expires: isoTime(expiresMs),
    expiresInSeconds: Math.floor((expiresMs - wallMs) / 1000),
    isCurrent: watched.isCurrent,
  };
}

function policyFacts({ policy, outcomes }: PolicyStats): PolicyList["policies"][number] {
  const { name, rate, limit, cost, key, match, who, chargeStatuses, mode, exempt, overrides } = policy;
  const calendar = rate.kind === "calendar" ? rate : null;
  return {
    ...{ name, kind: rate.kind, limit },
    windowSeconds: rate.kind === "sliding" ? rate.windowMs / 1000 : null,
    ...{ per: calendar?.per ?? null, timezone: calendar?.timezone ?? null, cost },
    key: key.map(keyPartText),
    ...{ paths: [...match.paths], methods: [...match.methods], who },
    chargeStatuses: chargeStatuses && [...chargeStatuses],
    ...{ mode, exempt: [...exempt] },
    overrides: overrides.map(({ part, value, limit: own }) => {
      const isSecret = part === "header" || (part === "token" && isTokenDigest(value));
      return { part, value: isSecret ? "***" : value, limit: own };
    }),
    outcomes: { ...outcomes },
  };
}

function isoTime(wallMs: number): string {
  return new Date(wallMs).toISOString();
}
