// The headers of a message as they stand on the wire, which keeps their order, spelling and number.

/** name, value, name, value…; one character is one byte. */
export type HeaderList = readonly string[];

const none: readonly string[] = [];

/** Returns the values of a header. `name` is in lower case, here and below. */
export function headerValues(headers: HeaderList, name: string): readonly string[] {
  let values: string[] | undefined;
  for (let i = 0; i < headers.length; i += 2) {
    if (!isNamed(headers[i] ?? "", name)) continue;
    values ??= [];
    values.push(headers[i + 1] ?? "");
  }
  return values ?? none;
}

/** Returns the first value of a header; undefined without one. */
export function headerValue(headers: HeaderList, name: string): string | undefined {
  for (let i = 0; i < headers.length; i += 2) if (isNamed(headers[i] ?? "", name)) return headers[i + 1];
  return undefined;
}

/** Returns the value of a header that occurs exactly once; undefined otherwise. */
export function onlyHeaderValue(headers: HeaderList, name: string): string | undefined {
  let value: string | undefined;
  for (let i = 0; i < headers.length; i += 2) {
    if (!isNamed(headers[i] ?? "", name)) continue;
    if (value !== undefined) return undefined;
    value = headers[i + 1] ?? "";
  }
  return value;
}

/**
 * Compares the lengths first, because most names differ in length, and all messages are searched. Character by character,
 * because most others differ in their first characters, and a lower-case copy costs more.
 */
export function isNamed(candidate: string, name: string): boolean {
  if (candidate.length !== name.length) return false;
  for (let i = 0; i < name.length; i += 1) {
    const code = candidate.charCodeAt(i);
    if ((isCapital(code) ? code | 0x20 : code) !== name.charCodeAt(i)) return false;
  }
  return true;
}

function isCapital(code: number): boolean {
  return code >= 0x41 && code <= 0x5a;
}
