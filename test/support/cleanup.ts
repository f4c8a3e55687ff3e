// What a test opened, closed after it in reverse order.
import { afterAll, afterEach, type TestContext } from "vitest";
import { type Cleanup, cleanupTo } from "./closing.ts";

export type { Cleanup } from "./closing.ts";

/** Call at the top of a test file. */
export const useCleanup = (): Cleanup => closedBy(afterEach);

/** For what all tests of a file, or of a `describe`, share: call it there. */
export const useSharedCleanup = (): Cleanup => closedBy(afterAll);

function closedBy(hook: (close: () => Promise<void>) => void): Cleanup {
  const open: (() => unknown)[] = [];
  hook(async () => {
    for (const close of open.splice(0).reverse()) await close();
  });
  return cleanupTo((close) => void open.push(close));
}

/** For a test that runs beside others of its file: what it opened is closed after this test. */
export const cleanupOf = ({ onTestFinished }: Pick<TestContext, "onTestFinished">): Cleanup =>
  cleanupTo((close) => onTestFinished(async () => void (await close())));
