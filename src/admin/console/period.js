// A calendar quota as its period: how much of it is used, above how much of the period has passed, with one scale.
import { Meter } from "./clients.js";
import { count, percent } from "./format.js";
import { html } from "./html.js";
import { useTick } from "./live.js";

/** `state`: of one key, as the API answers it. `isWhole`: `used` is all that was used, at all gateways. */
export function Period({ state: { used, limit, remaining, period }, policy: { per, timezone }, clock, isWhole }) {
  useTick(1_000);
  const nowMs = clock.nowMs();
  const [startMs, endMs] = [Date.parse(period.start), Date.parse(period.end)];
  const passed = Math.min(1, Math.max(0, (nowMs - startMs) / (endMs - startMs)));
  const pace = remaining === 0 || !isWhole ? null : paceOf({ used, limit, startMs, endMs, passed });
  const usedUpMs = pace?.usedUpMs ?? null;
  const parts = partsOf(timezone, startMs, endMs);
  const texts = [
    `${percent(limit === 0 ? 1 : used / limit)} is used, and ${percent(passed)} of the ${per} has passed`,
    pace === null ? "" : `; ${paceText(pace, isOfDays(startMs, endMs), timezone, nowMs)}`,
    ".",
  ];
  return html`
    <div class="period">
      <${Meter} used=${used} limit=${limit} />
      ${parts === null ? html`<${Meter} used=${passed} limit=${1} />` : html`<${Parts} parts=${parts} nowMs=${nowMs} usedUpMs=${usedUpMs} />`}
      <p>${texts.join("")}</p>
      <p class="muted">A new ${per} begins on ${timeIn(timezone, endMs, { day: "numeric", month: "short" })} (${timezone}).</p>
    </div>`;
}

/** Days of a long period, hours of a day: those that have passed are filled, and the current one has a frame. */
function Parts({ parts, nowMs, usedUpMs }) {
  return html`
    <ol class="parts" aria-hidden="true">
      ${parts.map(({ name, startMs, endMs, isLabelled }) => {
        const isNow = startMs <= nowMs && nowMs < endMs;
        const isUsedUp = usedUpMs !== null && startMs <= usedUpMs && usedUpMs < endMs;
        const kinds = [isLabelled && "labelled", endMs <= nowMs && "passed", isNow && "now", isUsedUp && "used-up"];
        const style = { "--passed": `${((nowMs - startMs) / (endMs - startMs)) * 100}%` };
        return html`<li class=${kinds.filter(Boolean).join(" ")} style=${isNow ? style : undefined}>${name}</li>`;
      })}
    </ol>`;
}

/** Before so much of a period has passed, it says nothing about the rest. */
const leastPassed = 0.02;

/** When all is used if it goes on like this, or how much is used at the end; null: it is too early to tell. */
function paceOf({ used, limit, startMs, endMs, passed }) {
  if (used === 0 || passed < leastPassed) return null;
  const usedUpMs = startMs + ((endMs - startMs) * passed * limit) / used;
  return usedUpMs < endMs ? { usedUpMs } : { atEnd: Math.round(used / passed), limit };
}

function paceText({ usedUpMs, atEnd, limit }, hasDays, timezone, nowMs) {
  if (usedUpMs === undefined) return `at this pace ${count(atEnd)} of ${count(limit)} are used at its end`;
  if (!hasDays) return `at this pace it is used up at ${timeIn(timezone, usedUpMs)}`;
  const [day, today] = [dateIn(timezone, usedUpMs).day, dateIn(timezone, nowMs).day];
  return `at this pace it is used up ${day === today ? `today at ${timeIn(timezone, usedUpMs)}` : `on the ${ordinal(day)}`}`;
}

function ordinal(day) {
  const ending = { one: "st", two: "nd", few: "rd", other: "th" };
  return `${day}${ending[new Intl.PluralRules("en", { type: "ordinal" }).select(day)]}`;
}

const hourMs = 3_600_000;

/** Whether the parts of a period are days. A day has up to 25 hours. */
function isOfDays(startMs, endMs) {
  return endMs - startMs > 25 * hourMs;
}

/** Null for a short period. Instants are right but among days in which the clocks change, where later ones are an hour off. */
function partsOf(timezone, startMs, endMs) {
  const hasDays = isOfDays(startMs, endMs);
  const length = Math.round((endMs - startMs) / (hasDays ? 24 * hourMs : hourMs));
  const lengthMs = (endMs - startMs) / length;
  // An hour that comes twice is two hours.
  if (length <= 2) return null;
  return Array.from({ length }, (_, i) => {
    const partMs = startMs + i * lengthMs;
    const { day, hour } = dateIn(timezone, partMs + lengthMs / 2);
    const isLabelled = hasDays ? i === 0 || i % 5 === 4 : hour % 6 === 0;
    return { name: hasDays ? day : hour, startMs: partMs, endMs: partMs + lengthMs, isLabelled };
  });
}

/** Day of the month and hour of the day in a time zone; in that of this machine, if the browser does not know it. */
function dateIn(timezone, atMs) {
  const parts = formatIn(timezone, { day: "numeric", hour: "numeric" }).formatToParts(new Date(atMs));
  const value = (type) => Number(parts.find((part) => part.type === type).value);
  return { day: value("day"), hour: value("hour") };
}

/** `more`: fields beside the time of day. */
function timeIn(timezone, atMs, more = {}) {
  return formatIn(timezone, { ...more, hour: "2-digit", minute: "2-digit" }).format(new Date(atMs));
}

const formats = new Map();

function formatIn(timezone, fields) {
  const name = `${timezone} ${Object.keys(fields)}`;
  const known = formats.get(name);
  if (known !== undefined) return known;
  let made;
  try {
    made = new Intl.DateTimeFormat("en-GB", { ...fields, hourCycle: "h23", timeZone: timezone });
  } catch {
    made = new Intl.DateTimeFormat("en-GB", { ...fields, hourCycle: "h23" });
  }
  formats.set(name, made);
  return made;
}
