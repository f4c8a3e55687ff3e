// What is wrong, the worst first, each with the section of the runbooks that says what to do. Critical is what loses requests.
import { count, failureText, instant, percent, span, trialEnd, words } from "./format.js";

/** Those of the alerts in deploy/prometheus/alerts.rules.yaml, which a test compares, over the last minute instead of five. */
export const thresholds = {
  upstreamFailingShare: 0.01,
  certificateExpiresDays: 14,
  certificateExpiresNowDays: 1,
  /** Of requests that are throttled or refused. No alert has it: many gateways refuse as much all day. */
  refusedShare: 0.25,
  /** Of requests whose client left before the upstream answered. No alert has it: such a request has no latency. */
  abandonedShare: 0.05,
};

const severities = ["critical", "warning", "note"];
const [critical, warning, note] = severities.map((severity) => (text, runbook = null) => ({ severity, text, runbook }));

/** The steps of the last minute, which count as now. */
export function recentOf(history) {
  return history?.steps.slice(-12).filter(Boolean) ?? [];
}

// Three kinds of requests that got no response of the upstream: answered 429; failed, because of the upstream, the store or the
// gateway; refused because of what the client sent, or by a rule.
const throttledReasons = ["throttled", "too_many_refusals"];
const failedReasons = ["upstream_failed", "upstream_timeout", "store_unavailable", "overloaded", "internal"];

export function kindOf(reason) {
  if (throttledReasons.includes(reason)) return "throttled";
  return failedReasons.includes(reason) ? "failed" : "refused";
}

/** How many requests there were in these steps, and how many of each kind. */
export function countsOf(steps) {
  const counts = { all: 0, admitted: 0, throttled: 0, refused: 0, failed: 0 };
  for (const { admitted, refused } of steps) {
    counts.admitted += admitted;
    counts.all += admitted + total(refused);
    for (const [reason, requests] of Object.entries(refused)) counts[kindOf(reason)] += requests;
  }
  return counts;
}

/** The first sentence: whether something is wrong, and which shares of requests got no response of the upstream. */
export function headlineOf(problems, counts) {
  const wrong = problems.filter(({ severity, kind }) => severity !== "note" && kind === undefined).length;
  const state = wrong === 0 ? "Healthy" : wrong === 1 ? "1 problem" : `${wrong} problems`;
  const kinds = ["failed", "throttled", "refused"].filter((kind) => counts[kind] > 0);
  // It breaks between its parts alone.
  const shares = kinds.map((kind) => `${percent(counts[kind] / counts.all)} ${kind}`.replaceAll(" ", "\u00a0"));
  return [state, ...shares].join(", ");
}

/**
 * `status` and `history` as the API answers them; `history` may be null. `error`: why the last status could not be asked.
 * `outages`: when the upstream was down, as the page has heard it: instants `{ from, to }`. Returns a list of
 * `{ severity, text, runbook }`, where `runbook` may be null. `kind`: of the requests that it is about, where clients are to blame.
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
    ...ofTraffic(recentOf(history), status.store),
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
  const ejected = addresses
    .filter((each) => each.state === "ejected")
    .map((each) => `${each.address} (${failureText(each.reason)})`);
  return [
    state === "down" &&
      critical(`The upstream is down${reason === null ? "" : `: ${failureText(reason)}`}.`, "HeadgateUpstreamDown"),
    ejected.length > 0 &&
      warning(`The upstream's address gets no requests: ${ejected.join(", ")}.`, "HeadgateUpstreamAddressEjected"),
  ];
}

const whileAway = {
  closed: "limited requests get 503",
  open: "nobody is limited",
  local: "each gateway admits its share of every limit",
};

function ofStore(store) {
  if (store?.state === "away") {
    const as = store.onFailure === "closed" ? critical : warning;
    const away = store.since === null ? "is away" : `has been away since ${instant(store.since)}`;
    return [as(`The store ${away}: ${whileAway[store.onFailure]}.`, "HeadgateStoreAway")];
  }
  if (store?.state === "slow") return [warning("The store answers slowly.", "HeadgateStoreSlow")];
  return [];
}

function ofCertificate(name, certificate) {
  if (certificate === null) return [];
  const { expiresInSeconds, isCurrent } = certificate;
  const days = Math.floor(expiresInSeconds / 86_400);
  const isNow = days < thresholds.certificateExpiresNowDays;
  return [
    expiresInSeconds < 0 && critical(`${name} has expired.`, "HeadgateCertificateExpiresNow"),
    expiresInSeconds >= 0 && isNow && critical(`${name} expires within a day.`, "HeadgateCertificateExpiresNow"),
    !isNow &&
      days < thresholds.certificateExpiresDays &&
      warning(`${name} expires in ${days} days.`, "HeadgateCertificateExpires"),
    !isCurrent &&
      warning(`${name} on disk is missing or wrong, and an earlier one is in use.`, "HeadgateCertificateStale"),
  ];
}

/** Fewer requests than this say nothing about a share. */
const minRequests = 12;

function ofTraffic(steps, store) {
  const refused = (reason) => sum(steps, (step) => step.refused[reason] ?? 0);
  const late = refused("store_unavailable");
  return [
    refused("internal") > 0 &&
      critical("The gateway has failed to answer a request: the log says why.", "HeadgateInternalError"),
    refused("overloaded") > 0 && critical("Requests find no free connection to the upstream.", "HeadgateUpstreamBusy"),
    late > 0 &&
      store?.state !== "away" &&
      critical(`${count(late)} requests got 503, because the store did not answer.`, "HeadgateStoreSlow"),
    ofAbandoned(steps),
    ofRefusals(steps, refused),
  ];
}

/** The upstream hangs, or takes longer than clients wait. Null: a few. */
function ofAbandoned(steps) {
  const abandoned = sum(steps, ({ upstream }) => upstream.abandoned);
  const all = abandoned + sum(steps, (step) => step.upstream.answered + upstreamFailuresIn(step));
  if (all < minRequests || abandoned / all < thresholds.abandonedShare) return null;
  const text = `${count(abandoned)} requests (${percent(abandoned / all)}) in the last minute: the client left before the upstream answered.`;
  return warning(text, "HeadgateUpstreamSlow");
}

/** Null: a few. The gateway does what it is there for, and yet somebody should look who it is. */
function ofRefusals(steps, refused) {
  const { all, throttled, refused: others } = countsOf(steps);
  const share = (throttled + others) / all;
  if (all < minRequests || share < thresholds.refusedShare) return null;
  const kind = throttled >= others ? "throttled" : "refused";
  const reasons = steps.flatMap((step) => Object.keys(step.refused)).filter((each) => kindOf(each) === kind);
  const reason = reasons.reduce((a, b) => (refused(b) > refused(a) ? b : a));
  const other =
    reason === "blocked" ? "HeadgateManyBlocked" : reason.endsWith("_token") ? "HeadgateTokensRefused" : null;
  const parts = [
    throttled > 0 && `${percent(throttled / all)} throttled`,
    others > 0 && `${percent(others / all)} refused`,
  ];
  const cause = kind === "throttled" ? "" : `, most: ${words(reason)}`;
  const text = `Of ${count(all)} requests in the last minute, ${parts.filter(Boolean).join(" and ")}${cause}.`;
  return { ...warning(text, kind === "throttled" ? "HeadgateThrottlesMost" : other), kind };
}

/** Steps with failures that are further apart than so many are two times. */
const maxGap = 12;

/**
 * When the upstream failed requests, by the history; by the second where the page has heard that it was down. Addresses are known of
 * the last `seconds` alone.
 */
function ofFailures(history, outages, { seconds, failures }) {
  const { end, stepSeconds, steps } = history;
  const at = (i) => (Date.parse(end) || 0) - (steps.length - i) * stepSeconds * 1000;
  const runs = [];
  for (const [i, step] of steps.entries()) {
    if (step === null || upstreamFailuresIn(step) === 0) continue;
    const last = runs.at(-1);
    if (last !== undefined && i - last.to <= maxGap) last.to = i + 1;
    else runs.push({ from: i, to: i + 1 });
  }
  return runs.map(({ from, to }) => {
    // An outage that is as long: an upstream that fails a part of its requests is also down now and then.
    const isNear = (text, i) => Date.parse(text) > at(i - 2) && Date.parse(text) < at(i + 2);
    const down = outages.find((outage) => isNear(outage.from, from) && isNear(outage.to, to));
    const times = down === undefined ? [at(from), at(to)] : [Date.parse(down.from), Date.parse(down.to)];
    const isOn = down === undefined && to >= steps.length - 1;
    const causes = to > steps.length - seconds / stepSeconds ? failures : [];
    return failureProblem(steps.slice(from, to).filter(Boolean), times, down !== undefined, isOn, causes);
  });
}

/** False: too little. */
function failureProblem(steps, [fromMs, toMs], isDown, isOn, causes) {
  const failed = sum(steps, upstreamFailuresIn);
  const attempts = failed + sum(steps, ({ upstream }) => upstream.answered);
  if (attempts < minRequests || failed / attempts <= thresholds.upstreamFailingShare) return false;
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
  const since = instant(fromMs);
  if (isOn) return critical(`The upstream has failed ${share} since ${since}: ${facts.join(", ")}.`, runbook);
  const when = `${since}–${instant(toMs)} (${span((toMs - fromMs) / 1000)})`;
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
export function upstreamFailuresIn({ upstream }) {
  return total(upstream.failedByReason);
}

export function total(counts) {
  return sum(Object.values(counts), (each) => each);
}
