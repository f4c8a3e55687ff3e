// Instants of 32 bits. A tick is a millisecond, modulo 2^32: about 50 days, of which the longest window takes 31. What is
// older than its window is removed long before it could look young again. Instants of the next three days count as in
// the future: a tick is rounded up, and another thread may have read the clock later.

/** Ages from here on are instants in the future. */
const futureAge = 0xf000_0000;
const range = 2 ** 32;

/** What decides whether a pair still counts. For a calendar, instants are periods and the window is 1. */
export interface Span {
  now: number;
  window: number;
}

/** The tick that has begun. What is younger than this may expire. */
export function tickNow(nowMs: number): number {
  return Math.floor(nowMs) | 0;
}

/** The tick of an admission: never earlier than its instant. */
export function tickOf(nowMs: number): number {
  return Math.ceil(nowMs) | 0;
}

export function isExpired(tick: number, nowTick: number, windowTicks: number): boolean {
  const age = (nowTick - tick) >>> 0;
  return age >= windowTicks && age < futureAge;
}

/** Returns the later of two instants. `tick` may be long past. */
export function later(tick: number, nowTick: number): number {
  return (nowTick - tick) >>> 0 >= futureAge ? tick : nowTick;
}

/** In milliseconds; negative in the future. */
export function ageOf(tick: number, nowTick: number): number {
  const age = (nowTick - tick) >>> 0;
  return age >= futureAge ? age - range : age;
}
