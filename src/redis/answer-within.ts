// Asks a server that may never answer, and waits for a time. The connection is kept: answers to others may still come.
import { StoreError, unreachable } from "./call-failure.ts";
import type { Connection } from "./connection.ts";

/** Rejects with a StoreError. */
export function answerWithin(connection: Connection, ms: number, name: string, ...args: string[]): Promise<unknown> {
  return new Promise((resolve, reject) => {
    const late = (): void => reject(new StoreError(unreachable("the server does not answer")));
    const timer = setTimeout(late, ms);
    connection.send(name, args, (reply, failure) => {
      clearTimeout(timer);
      if (failure === null) resolve(reply);
      else reject(new StoreError(failure));
    });
  });
}
