// Parses HTTP dates in the three forms that a recipient must accept (RFC 9110, 5.6.7). Date.parse cannot serve: it
// finds a year in almost any text ("soon 2" is February 2001 to V8) and reads the asctime form as local time.

const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const TIME = "(?<hour>\\d{2}):(?<minute>\\d{2}):(?<second>\\d{2})";
const FORMS = [
  new RegExp(`^[A-Z][a-z]{2}, (?<day>\\d{2}) (?<month>[A-Z][a-z]{2}) (?<year>\\d{4}) ${TIME} GMT$`),
  new RegExp(`^[A-Z][a-z]+day, (?<day>\\d{2})-(?<month>[A-Z][a-z]{2})-(?<year>\\d{2}) ${TIME} GMT$`),
  new RegExp(`^[A-Z][a-z]{2} (?<month>[A-Z][a-z]{2}) (?<day>[ \\d]\\d) ${TIME} (?<year>\\d{4})$`),
];

/** Returns Unix milliseconds, or null if the text is not an HTTP date. Does not compare the weekday with the date. */
export function parseHttpDate(text: string): number | null {
  for (const form of FORMS) {
    const groups = form.exec(text)?.groups;
    if (groups !== undefined) return instant(groups);
  }
  return null;
}

function instant(groups: Record<string, string | undefined>): number | null {
  const { year = "", month = "", day, hour, minute, second } = groups;
  const date = [fullYear(year), MONTHS.indexOf(month), Number(day)] as const;
  const time = [Number(hour), Number(minute), Number(second)] as const;
  return isDay(...date) && isTime(...time) ? Date.UTC(...date, ...time) : null;
}

/** Needed because Date.UTC reads 31 February as 3 March. */
function isDay(year: number, month: number, day: number): boolean {
  const days = (Date.UTC(year, month + 1, 1) - Date.UTC(year, month, 1)) / 86_400_000;
  return month >= 0 && day >= 1 && day <= days;
}

/** 60 is a leap second; Date.UTC adds it to the next minute. */
function isTime(hour: number, minute: number, second: number): boolean {
  return hour <= 23 && minute <= 59 && second <= 60;
}

/**
 * RFC 850 dates have two digits. The rule of RFC 9110 (at most 50 years ahead) needs the current date. The senders of
 * this form are decades old, so a fixed rule suffices: 70 to 99 are in the 1900s.
 */
function fullYear(digits: string): number {
  const year = Number(digits);
  if (digits.length > 2) return year;
  return year < 70 ? 2000 + year : 1900 + year;
}
