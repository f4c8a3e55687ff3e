// Why a command could not do what it was asked: for people, with the exit code. A command that needs several answers of a gateway
// ends with the first that fails.
import type { exitCodes } from "../io.ts";

export class CommandError extends Error {
  readonly exitCode: (typeof exitCodes)["refused" | "usage" | "unavailable" | "notPermitted" | "config"];
  /** In sentences, beside the message. */
  readonly details: readonly string[];

  constructor(exitCode: CommandError["exitCode"], message: string, details: readonly string[] = [], cause?: unknown) {
    super(message, cause === undefined ? {} : { cause });
    this.exitCode = exitCode;
    this.details = details;
  }
}
