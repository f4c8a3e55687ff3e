// What a test opened, closed after it in reverse order.
import { afterAll, afterEach, type TestContext } from "vitest";

export type Cleanup = (close: () => unknown) => void;

/** Call at the top of a test file. */
export function useCleanup(): Cleanup {
  const open: (() => unknown)[] = [];
  afterEach(async () => {
    for (const close of open.splice(0).reverse()) await close();
  });
  return (close) => void open.push(close);
}

/** For what all tests of a file, or of a `describe`, share: call it there. */
export function useSharedCleanup(): Cleanup {
  const open: (() => unknown)[] = [];
  afterAll(async () => {
    for (const close of open.reverse()) await close();
  });
  return (close) => void open.push(close);
}

/** For a test that runs beside others of its file: what it opened is closed after this test. */
export const cleanupOf =
  ({ onTestFinished }: Pick<TestContext, "onTestFinished">): Cleanup =>
  (close) =>
    onTestFinished(async () => void (await close()));
