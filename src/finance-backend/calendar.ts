// Calendar arithmetic on integers, independent of clock, time zone and locale. A day is the number of days since 1970-01-01.
// Years run from 0001 to 9999. A date that does not exist is null, never rounded.

const dayMs = 86_400_000;

/** The day of a YYYY-MM-DD text, or null when the text is no real calendar date. */
export function parseDay(text: string): number | null {
  const match = /^(\d{4})-(\d{2})-(\d{2})$/.exec(text);
  if (match === null) return null;
  const [year, month, dayOfMonth] = [Number(match[1]), Number(match[2]), Number(match[3])];
  if (year < 1 || month < 1 || month > 12 || dayOfMonth < 1) return null;
  const day = dayOf(year, month, dayOfMonth);
  // 2025-02-30 becomes 2025-03-02: a date exists if formatting its day returns the same text.
  return formatDay(day) === text ? day : null;
}

export function formatDay(day: number): string {
  const { year, month, dayOfMonth } = civil(day);
  return `${pad(year, 4)}-${pad(month, 2)}-${pad(dayOfMonth, 2)}`;
}

function civil(day: number): { year: number; month: number; dayOfMonth: number } {
  // Howard Hinnant's civil_from_days: years start in March, so that the leap day is the last of its year.
  const shifted = day + 719_468;
  const era = Math.floor(shifted / 146_097);
  const dayOfEra = shifted - era * 146_097;
  const yearOfEra = Math.floor(
    (dayOfEra - Math.floor(dayOfEra / 1460) + Math.floor(dayOfEra / 36_524) - Math.floor(dayOfEra / 146_096)) / 365,
  );
  const dayOfYear = dayOfEra - (365 * yearOfEra + Math.floor(yearOfEra / 4) - Math.floor(yearOfEra / 100));
  const marchMonth = Math.floor((5 * dayOfYear + 2) / 153);
  const month = marchMonth < 10 ? marchMonth + 3 : marchMonth - 9;
  return {
    year: yearOfEra + era * 400 + (month <= 2 ? 1 : 0),
    month,
    dayOfMonth: dayOfYear - Math.floor((153 * marchMonth + 2) / 5) + 1,
  };
}

/**
 * A date (midnight UTC) or an ISO 8601 date and time, as the canonical `YYYY-MM-DDTHH:MM:SS.sssZ`; null when it is
 * neither. Without an offset the time is UTC. Canonical texts sort as the instants they name.
 */
export function parseTimestamp(text: string): string | null {
  if (parseDay(text) !== null) return `${text}T00:00:00.000Z`;
  const match = /^(.{10})[Tt](\d{2}):(\d{2})(?::(\d{2})(?:\.(\d{1,9}))?)?(?:[Zz]|([+-])(\d{2}):(\d{2}))?$/.exec(text);
  const day = match === null ? null : parseDay(match[1] ?? "");
  if (match === null || day === null) return null;
  const [hour, minute, second] = [Number(match[2]), Number(match[3]), Number(match[4] ?? 0)];
  const [offsetHours, offsetMinutes] = [Number(match[7] ?? 0), Number(match[8] ?? 0)];
  if (hour > 23 || minute > 59 || second > 59 || offsetHours > 23 || offsetMinutes > 59) return null;
  const ms = Number((match[5] ?? "").padEnd(3, "0").slice(0, 3));
  const offset = (match[6] === "-" ? -1 : 1) * (offsetHours * 60 + offsetMinutes);
  return formatTimestamp(day * dayMs + ((hour * 60 + minute - offset) * 60 + second) * 1000 + ms);
}

/** Clamped to years of four digits: texts of other years would not sort as instants. */
export function formatTimestamp(epochMs: number): string {
  const within = Math.min(Math.max(epochMs, firstMs), lastMs);
  const day = Math.floor(within / dayMs);
  const msOfDay = within - day * dayMs;
  const seconds = Math.floor(msOfDay / 1000);
  const [hour, minute] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60];
  return `${formatDay(day)}T${pad(hour, 2)}:${pad(minute, 2)}:${pad(seconds % 60, 2)}.${pad(msOfDay % 1000, 3)}Z`;
}

function dayOf(year: number, month: number, dayOfMonth: number): number {
  const marchYear = month <= 2 ? year - 1 : year;
  const era = Math.floor(marchYear / 400);
  const yearOfEra = marchYear - era * 400;
  const dayOfYear = Math.floor((153 * (month > 2 ? month - 3 : month + 9) + 2) / 5) + dayOfMonth - 1;
  const dayOfEra = yearOfEra * 365 + Math.floor(yearOfEra / 4) - Math.floor(yearOfEra / 100) + dayOfYear;
  return era * 146_097 + dayOfEra - 719_468;
}

function pad(value: number, digits: number): string {
  return String(value).padStart(digits, "0");
}

const firstMs = dayOf(1, 1, 1) * dayMs;
const lastMs = (dayOf(9999, 12, 31) + 1) * dayMs - 1;
