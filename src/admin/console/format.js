// Numbers, lengths of time and names as people read them.
import { localMs } from "./clock.js";

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const precise = new Intl.NumberFormat("en", { maximumSignificantDigits: 2 });
const time = { hour: "2-digit", minute: "2-digit", second: "2-digit" };
const clock = new Intl.DateTimeFormat("en-GB", time);
const dayAndClock = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", ...time });

export function count(value) {
  return whole.format(value);
}

/** Two digits below ten, whole numbers above. */
export function rounded(value) {
  return value >= 10 || value === 0 ? whole.format(value) : precise.format(value);
}

export function percent(share) {
  if (share > 0 && share < 0.001) return "< 0.1 %";
  return `${share < 0.1 ? precise.format(share * 100) : whole.format(share * 100)} %`;
}

/** Of a response: micro- to seconds. */
export function latency(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  if (seconds < 0.001) return `${rounded(seconds * 1e6)} µs`;
  return seconds < 1 ? `${rounded(seconds * 1e3)} ms` : `${rounded(seconds)} s`;
}

const units = [
  ["d", 86_400],
  ["h", 3_600],
  ["min", 60],
];

/** A length of time by its two largest units, such as "1 h 5 min". */
export function span(seconds) {
  const total = Math.max(0, seconds);
  const at = units.findIndex(([, length]) => total >= length);
  if (at === -1)
    return total < 10 && total % 1 !== 0 ? `${(Math.ceil(total * 10) / 10).toFixed(1)} s` : `${Math.ceil(total)} s`;
  const [unit, length] = units[at];
  const [smaller, smallerLength] = units[at + 1] ?? ["s", 1];
  const rest = Math.floor((total % length) / smallerLength);
  return `${Math.floor(total / length)} ${unit}${rest === 0 ? "" : ` ${rest} ${smaller}`}`;
}

/** Of a text such as "15m". */
export function secondsIn(text) {
  return Number.parseInt(text, 10) * { s: 1, m: 60, h: 3_600, d: 86_400 }[text.at(-1)];
}

/** What is left, such as "4:05" or "1:00:00". */
export function timer(seconds) {
  const left = Math.ceil(seconds);
  const [hours, minutes] = [Math.floor(left / 3600), Math.floor(left / 60) % 60];
  const two = (value) => String(value).padStart(2, "0");
  return `${hours > 0 ? `${hours}:${two(minutes)}` : minutes}:${two(left % 60)}`;
}

/** What became of a reload on trial, as the end of a sentence. */
export function trialEnd({ outcome, reason, by, trial }) {
  const verb = outcome === "confirmed" ? "confirmed" : "taken back";
  if (reason === "time")
    return `${verb}, because ${outcome === "confirmed" ? "its time was over" : "nobody had confirmed it in time"}`;
  if (reason === "reload") return `${verb} by another reload, which was not on trial`;
  if (reason === "refused")
    return `${verb}, because it refused ${count(trial.refused)} of ${count(trial.judged)} requests that would have been admitted before`;
  return `${verb} by ${callerText(by)}`;
}

function callerText(name) {
  return name === "socket" ? "somebody over the socket" : (name ?? "a program");
}

/** Not an object, whose prototype has keys too: an element made of it would change every object of the page. */
const causes = new Map([
  ["signal", "by SIGHUP"],
  ["file", "because a file has changed"],
  ["trial", "because a reload on trial was taken back"],
]);

/** Why there was a reload, as the end of a sentence. */
export function reloadCause(cause, caller) {
  return cause === "call" ? `by ${callerText(caller)}` : causes.get(cause);
}

export function bytes(value) {
  return value < 1024 * 1024 ? `${rounded(value / 1024)} KiB` : `${rounded(value / 1024 / 1024)} MiB`;
}

/** An instant of today as a time of day, by the clock of this machine. */
export function instant(text) {
  const isToday = new Date(text).toDateString() === new Date(localMs()).toDateString();
  return isToday ? clock.format(new Date(text)) : fullInstant(text);
}

/** A text that is no instant stays as it is. */
export function fullInstant(text) {
  const at = new Date(text);
  return Number.isNaN(at.getTime()) ? text : dayAndClock.format(at);
}

/** A name of the API in words. */
export function words(name) {
  return name.replaceAll("_", " ");
}

/** Why a request failed at the upstream. */
export function failureText(reason) {
  return ["refused", "reset", "closed_early"].includes(reason) ? `connection ${words(reason)}` : words(reason);
}

/** A limit with its rate, such as "100 in 1 min". */
export function rateOf({ kind, limit, windowSeconds, per, timezone }) {
  if (kind === "concurrency") return `${count(limit)} at once`;
  if (kind === "calendar") return `${count(limit)} a ${per} (${timezone})`;
  return `${count(limit)} in ${span(windowSeconds)}`;
}

/** As a part of an address. A text with half of a surrogate pair has no encoding, and would throw. */
export function encoded(text) {
  return encodeURIComponent(text.toWellFormed());
}

/** The address of a client's view. */
export function clientLink(key) {
  return `#/clients/${encoded(key)}`;
}

export function requestLink(id) {
  return `#/requests/${encoded(id)}`;
}
