// Exit codes as in sysexits.h, for whoever starts the gateway to tell a mistake from a failure.

export const exitCodes = {
  ok: 0,
  /** The command line was wrong. */
  usage: 64,
  /** A listener could not be opened, or another service of the machine is missing. */
  unavailable: 69,
  /** A bug. */
  internal: 70,
  /** A second signal ended it before the drain was over: 128 and the signal's number, as a shell tells it. */
  interrupted: 130,
  terminated: 143,
  /** The configuration was wrong; no port was opened. */
  config: 78,
} as const;
