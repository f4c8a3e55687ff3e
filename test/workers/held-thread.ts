// A thread that a test holds back: from the third on, it starts when the test lets it. On the word of the test, each asks the main
// thread for what was forgiven elsewhere, as the real one does.
import { BroadcastChannel, parentPort, threadId, workerData } from "node:worker_threads";
import type { Wanted } from "../../src/gateway/threads/messages.ts";

export const heldChannel = "headgate-test-held-threads";

/** What the test tells all threads, and what a thread tells the test. */
export type HeldWord = "start" | "ask" | "held" | "answered";

if (parentPort !== null && threadId !== 0) {
  const port = parentPort;
  const channel = new BroadcastChannel(heldChannel);
  const tell = (word: HeldWord): void => channel.postMessage(word);
  const mayStart = Promise.withResolvers<void>();
  channel.onmessage = ({ data }: { readonly data: HeldWord }) => {
    if (data === "start") mayStart.resolve();
    if (data === "ask") port.postMessage({ wants: "forgiven", id: 1 } satisfies Wanted);
  };
  if (workerData.thread > 2) {
    tell("held");
    await mayStart.promise;
  }
  channel.unref();
  port.on("message", ({ name }: { readonly name: string }) => {
    if (name === "forgivenRead") tell("answered");
  });
  await import("../../src/gateway/threads/thread.ts");
}
