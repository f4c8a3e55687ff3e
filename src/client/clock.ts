// The only file of the client that reads a clock. Waits are lengths, not instants, so the wall clock is asked for one
// thing alone: to read a Retry-After date on a response that has no Date field to measure it against.

export function wallMs(): number {
  return Date.now();
}
