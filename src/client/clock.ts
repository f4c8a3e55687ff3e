// The only file of the client that reads a clock: the wall clock, for a Retry-After date on a response without Date.

export function wallMs(): number {
  return Date.now();
}
