// `headgate status`: what a gateway runs with, and how what it depends on is.
import type { Status } from "../../admin/control-plane.ts";
import { systemClock } from "../../core/clock.ts";
import type { ConnectedGateway } from "./connect.ts";
import { counted, durationText, instantText, type Report, tableLines, trialEndText, untilText } from "./printed.ts";

export async function reportStatus({ status }: ConnectedGateway): Promise<Report> {
  return { answer: status, lines: () => statusLines(status, systemClock.wallMs()) };
}

export function statusLines(status: Status, nowMs: number): string[] {
  const { version, nodeVersion, state, uptimeSeconds, workers, tokens } = status;
  const rows = [
    ["gateway", `${state}, started ${durationText(uptimeSeconds)} ago, version ${version}, Node ${nodeVersion}`],
    ...configurationRows(status, nowMs),
    ...trialRow(status, nowMs),
    ...lastTrialRow(status, nowMs),
    ["workers", `${workers.serving} of ${workers.configured} serving, ${counted(workers.restarts, "restart")}`],
    ...status.possibleProxies.flatMap((peer) => [
      ["possible proxy", `${peer} is not trusted, and names many clients, which share its quota`],
      ["", "add it to clientAddress.trustedProxies only if it is your own proxy: a client can invent addresses"],
    ]),
    ...upstreamRows(status),
    ...storeRows(status, nowMs),
    ...certificateRow("certificate", status.certificate),
    ...certificateRow("admin certificate", status.adminCertificate),
    ...(tokens === null ? [] : [["tokens", `${tokens.listed} listed, ${tokens.ending} of them ending in 14 days`]]),
  ];
  return tableLines(rows);
}

function configurationRows({ config }: Status, nowMs: number): string[][] {
  const { loaded, loadedBy, isCurrent, restart, lastReload } = config;
  const failed = lastReload !== null && (!isCurrent || lastReload.refused.length > 0) ? lastReload : null;
  return [
    [
      "configuration",
      `loaded at ${instantText(loaded, nowMs)} (${loadedBy})${isCurrent ? "" : ", NOT what was read last"}`,
    ],
    ...(failed === null ? [] : failed.errors.map((error) => ["", error])),
    ...(failed === null
      ? []
      : failed.refused.map((key) => ["", `${key}: the file is missing or wrong, an earlier version is used`])),
    ...(restart.length === 0 ? [] : [["", `needs a restart: ${restart.join(", ")}`]]),
  ];
}

function trialRow({ trial }: Status, nowMs: number): string[][] {
  if (trial === null) return [];
  const { unconfirmed, ends, refusedShare, refused, judged } = trial;
  const then = unconfirmed === "keep" ? "is kept" : "is taken back";
  const share = `${refused} of ${counted(judged, "request")} refused that it would have admitted before`;
  return [
    ["", `ON TRIAL: without "headgate confirm", it ${then} ${untilText(ends, nowMs)}`],
    ...(refusedShare === null ? [] : [["", `${share}; taken back above ${refusedShare * 100} %, from 20 on`]]),
  ];
}

/** What became of the last trial, unless another reload came after it. */
function lastTrialRow({ config: { loaded, loadedBy }, trial, lastTrial }: Status, nowMs: number): string[][] {
  if (lastTrial === null || trial !== null) return [];
  if (loadedBy !== "trial" && Date.parse(loaded) > Date.parse(lastTrial.at)) return [];
  const {
    at,
    trial: { changed },
  } = lastTrial;
  const about = changed.length === 0 ? "" : ` (${changed.join(", ")})`;
  return [["", `the reload on trial${about} was ${trialEndText(lastTrial)}, at ${instantText(at, nowMs)}`]];
}

function upstreamRows({ upstream: { state, reason, addresses, lastMinutes } }: Status): string[][] {
  const { seconds, answered, meanSeconds, abandoned, failures } = lastMinutes;
  const failed = failures.reduce((sum, { count }) => sum + count, 0);
  const all = answered + failed;
  const mean = meanSeconds === null ? "" : `, answered in ${Math.ceil(1000 * meanSeconds)} ms on average`;
  const share = failed === 0 ? "" : `, ${failed} of them (${Math.ceil((100 * failed) / all)} %) FAILED`;
  return [
    ["upstream", reason === null ? state : `${state} (${reason})`],
    ["", `in the last ${durationText(seconds)}: ${counted(all, "request")}${mean}${share}`],
    ...failures.map(({ reason: why, address, count }) => {
      return ["", `${count} × ${why}${address === null ? "" : ` at ${address}`}`];
    }),
    ...(abandoned === 0
      ? []
      : [["", `${counted(abandoned, "more request")}: the client left before the upstream answered`]]),
    ...addresses.map(({ address, state: own, reason: why, active }) => [
      "",
      `${address} ${own}${why === null ? "" : ` (${why})`}, ${counted(active, "request")} on it`,
    ]),
  ];
}

const whileAway = {
  closed: "limited requests get 503",
  open: "nobody is limited",
  local: "each gateway admits its share of every limit",
};

function storeRows({ store }: Status, nowMs: number): string[][] {
  if (store === null) return [];
  const shards = Object.entries(store.shards).filter(([, count]) => count > 0);
  const shown = shards.map(([state, count]) => `${count} ${state}`).join(", ");
  const { state, since } = store;
  const known = since === null ? "" : ` since ${instantText(since, nowMs)}`;
  return [
    ["store", `${state}${known} (${shown}), shared by ${counted(store.replicas, "gateway")}`],
    ...(state === "away" ? [["", whileAway[store.onFailure]]] : []),
  ];
}

function certificateRow(name: string, certificate: Status["certificate"]): string[][] {
  if (certificate === null) return [];
  const { subject, expiresInSeconds, isCurrent } = certificate;
  const end = expiresInSeconds < 0 ? "HAS EXPIRED" : `expires in ${durationText(expiresInSeconds)}`;
  return [[name, `${subject} ${end}${isCurrent ? "" : "; its files are missing or wrong"}`]];
}
