// The only file of the client that reads a clock. Waits are durations, so the wall clock is needed only for a Retry-After
// date on a response without a Date field.

export function wallMs(): number {
  return Date.now();
}
