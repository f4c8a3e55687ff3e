// What is wrong, the worst first, each with the section of the runbooks that says what to do. The thresholds are those of the
// alerts in deploy/prometheus/alerts.rules.yaml, over the last minute instead of five.
import { count, failureText, instant, span, trialEnd } from "./format.js";

const severities = ["critical", "warning", "note"];
const [critical, warning, note] = severities.map((severity) => (text, runbook = null) => ({ severity, text, runbook }));

/** Steps of the history that count as now. */
const recentSteps = 12;

/**
 * `status` and `history` as the API answers them; `history` may be null. `error`: why the last status could not be asked.
 * `outages`: when the upstream was down, as the page has heard it: instants `{ from, to }`. Returns a list of
 * `{ severity, text, runbook }`, where `runbook` may be null.
 */
export function problemsOf(status, history, error, outages = []) {
  const found = [
    ...(error === null ? [] : [critical(error.message, error.status === 0 ? "HeadgateDown" : null)]),
    ...ofGateway(status),
    ...ofConfiguration(status),
    ...ofUpstream(status.upstream),
    ...ofStore(status.store),
    ...ofCertificate("The certificate", status.certificate),
    ...ofCertificate("The certificate of this page and the admin API", status.adminCertificate),
    ...ofTraffic(history?.steps.slice(-recentSteps).filter(Boolean) ?? []),
    ...(history === null ? [] : ofFailures(history, outages, status.upstream.lastMinutes)),
  ];
  return found.filter(Boolean).sort((a, b) => severities.indexOf(a.severity) - severities.indexOf(b.severity));
}

/** The worst severity; `well` if there is none but notes. */
export function worstOf(problems) {
  return problems.find(({ severity }) => severity !== "note")?.severity ?? "well";
}

const proxyText = "names many clients. Add it to clientAddress.trustedProxies only if it is your own proxy.";

function ofGateway({ state, workers, tokens, possibleProxies }) {
  const missing = workers.configured - workers.serving;
  return [
    state === "draining" && warning("The gateway is draining: it ends when its requests are over."),
    state === "starting" && warning("The gateway is starting."),
    state === "ready" &&
      missing > 0 &&
      critical(`${missing} of ${workers.configured} workers do not serve.`, "HeadgateWorkerRestarts"),
    possibleProxies.length > 0 && warning(`${possibleProxies.join(", ")}: ${proxyText}`, "HeadgateOneClient"),
    tokens !== null && tokens.ending > 0 && note(`${tokens.ending} tokens end within 14 days.`),
  ];
}

function ofConfiguration({ config: { isCurrent, lastReload, restart }, lastTrial }) {
  const refused = lastReload?.refused ?? [];
  return [
    !isCurrent && notCurrent(lastReload, lastTrial),
    refused.length > 0 &&
      warning(
        `A file is missing or wrong, its last good version is in use: ${refused.join(", ")}`,
        "HeadgateReloadFailed",
      ),
    restart.length > 0 && warning(`New values need a restart: ${restart.join(", ")}`, "HeadgateRestartRequired"),
  ];
}

function notCurrent(lastReload, lastTrial) {
  const errors = lastReload?.errors ?? [];
  if (errors.length === 0 && lastTrial !== null) {
    const text = `The file has other values than are in force: the reload on trial was ${trialEnd(lastTrial)}.`;
    return warning(text, "HeadgateReloadTakenBack");
  }
  const wrong =
    lastReload?.by === "trial"
      ? "The reload on trial could not be taken back yet"
      : "The configuration is wrong, and the one from before is in force";
  return warning(`${wrong}: ${errors.join("; ")}`, "HeadgateReloadFailed");
}

function ofUpstream({ state, reason, addresses }) {
  const ejected = addresses.filter((each) => each.state === "ejected").map(({ address }) => address);
  return [
    state === "down" &&
      critical(`The upstream is down${reason === null ? "" : `: ${failureText(reason)}`}.`, "HeadgateUpstreamDown"),
    ejected.length > 0 &&
      warning(`The upstream's address gets no requests: ${ejected.join(", ")}`, "HeadgateUpstreamAddressEjected"),
  ];
}

function ofStore(store) {
  if (store?.state === "away")
    return [critical("The store is away: gateways do not count together.", "HeadgateStoreAway")];
  if (store?.state === "slow") return [warning("The store answers slowly.", "HeadgateStoreSlow")];
  return [];
}

function ofCertificate(name, certificate) {
  if (certificate === null) return [];
  const { expiresInSeconds, isCurrent } = certificate;
  const days = Math.floor(expiresInSeconds / 86_400);
  return [
    expiresInSeconds < 0 && critical(`${name} has expired.`, "HeadgateCertificateExpiresNow"),
    expiresInSeconds >= 0 && days < 1 && critical(`${name} expires within a day.`, "HeadgateCertificateExpiresNow"),
    days >= 1 && days < 14 && warning(`${name} expires in ${days} days.`, "HeadgateCertificateExpires"),
    !isCurrent &&
      warning(`${name} on disk is missing or wrong, and an earlier one is in use.`, "HeadgateCertificateStale"),
  ];
}

/** Fewer requests than this say nothing about a share. */
const minRequests = 12;

function ofTraffic(steps) {
  const refused = (reason) => sum(steps, (step) => step.refused[reason] ?? 0);
  const all = sum(steps, (step) => step.admitted + total(step.refused));
  const throttledShare = refused("throttled") / all;
  return [
    refused("internal") > 0 &&
      critical("The gateway has failed to answer a request: the log says why.", "HeadgateInternalError"),
    refused("overloaded") > 0 && warning("Requests find no free connection to the upstream.", "HeadgateUpstreamBusy"),
    all >= minRequests &&
      throttledShare > 0.5 &&
      warning(`${shown(throttledShare)} of requests are throttled.`, "HeadgateThrottlesMost"),
  ];
}

/** Steps with failures that are further apart than so many are two times. */
const maxGap = 12;

/**
 * When the upstream failed requests, by the history; by the second where the page has heard that it was down. Addresses are known of
 * the last `seconds` alone.
 */
function ofFailures({ end, stepSeconds, steps }, outages, { seconds, failures }) {
  const timeOf = (i) => (Date.parse(end) || 0) - (steps.length - i) * stepSeconds * 1000;
  const runs = [];
  for (const [i, step] of steps.entries()) {
    if (step === null || failedIn(step) === 0) continue;
    const last = runs.at(-1);
    if (last !== undefined && i - last.to <= maxGap) last.to = i + 1;
    else runs.push({ from: i, to: i + 1 });
  }
  return runs.map(({ from, to }) => {
    const isIn = (text) => Date.parse(text) > timeOf(from - 2) && Date.parse(text) < timeOf(to + 2);
    const down = outages.find((outage) => isIn(outage.from) && isIn(outage.to));
    const times = down === undefined ? [timeOf(from), timeOf(to)] : [Date.parse(down.from), Date.parse(down.to)];
    const isOn = down === undefined && to >= steps.length - 1;
    const causes = to > steps.length - seconds / stepSeconds ? failures : [];
    return failureProblem(steps.slice(from, to).filter(Boolean), times, down !== undefined, isOn, causes);
  });
}

/** False: too little. */
function failureProblem(steps, [fromMs, toMs], isDown, isOn, causes) {
  const failed = sum(steps, failedIn);
  const attempts = failed + sum(steps, ({ upstream }) => upstream.answered);
  if (attempts < minRequests || failed / attempts <= 0.01) return false;
  const answers = (reason, status) => {
    const times = sum(steps, ({ refused }) => refused[reason] ?? 0);
    return times > 0 && `${count(times)} × ${status}`;
  };
  const reasons = new Set(steps.flatMap(({ upstream }) => Object.keys(upstream.failedByReason)));
  const facts = [
    answers("upstream_failed", 502),
    answers("upstream_timeout", 504),
    ...[...reasons].map((reason) => failureText(reason) + addressesOf(reason, causes)),
  ].filter(Boolean);
  const share = `${shown(failed / attempts)} of requests`;
  const runbook = "HeadgateUpstreamFailing";
  if (isOn) return warning(`The upstream fails ${share}: ${facts.join(", ")}.`, runbook);
  const when = `${instant(fromMs, toMs)}–${instant(toMs, toMs)} (${span((toMs - fromMs) / 1000)})`;
  const text = `The upstream ${isDown ? "was down" : `failed ${share}`} ${when}: ${facts.join(", ")}.`;
  return note(text, runbook);
}

/** Three of those that failed so. */
function addressesOf(reason, causes) {
  const found = causes.filter((each) => each.reason === reason && each.address).slice(0, 3);
  return found.map(({ address }, i) => (i ? ", " : " at ") + address).join("");
}

function shown(share) {
  return `${Math.round(share * 1000) / 10} %`;
}

export function sum(all, figureOf) {
  return all.reduce((so, each) => so + figureOf(each), 0);
}

/** How many requests the upstream failed. */
export function failedIn({ upstream }) {
  return total(upstream.failedByReason);
}

export function total(counts) {
  return sum(Object.values(counts), (each) => each);
}
