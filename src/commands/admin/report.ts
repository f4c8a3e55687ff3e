// What a command that asks a running gateway prints: for people, and as JSON.

/** What a command prints. */
export interface Report {
  /** As `--json` prints it. */
  readonly answer: unknown;
  /** For people; made only if they are asked for. */
  lines(): readonly string[];
  /** To standard error, for people. */
  readonly warnings?: readonly string[];
  /** Default: ok. */
  readonly exitCode?: number;
}
