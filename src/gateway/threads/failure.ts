// Errors between threads: those of listeners keep their kind and the system's code.
import { asError, errorCode } from "../../core/failure.ts";
import { ListenError } from "../listeners.ts";
import type { Failure } from "./messages.ts";

export function failureOf(thrown: unknown): Failure {
  const error = asError(thrown);
  const isListen = error instanceof ListenError;
  const cause = isListen ? asError(error.cause) : error;
  const listener = isListen ? { name: error.listener, address: error.address } : null;
  return { message: cause.message, stack: cause.stack, code: errorCode(cause), listener };
}

export function errorOf({ message, stack, code, listener }: Failure): Error {
  const error = Object.assign(new Error(message), { stack: stack ?? "", ...(code === undefined ? {} : { code }) });
  return listener === null ? error : new ListenError(listener.name, listener.address, error);
}
