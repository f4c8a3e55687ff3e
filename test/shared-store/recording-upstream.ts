// The upstream behind all gateways of a test: by one clock it records when each request arrived.
import { once } from "node:events";
import { Worker } from "node:worker_threads";
import type { Cleanup } from "../support/cleanup.ts";

export interface Visit {
  readonly arrivedMs: number;
  /** When its answer began to leave. Infinite, if it has none yet. */
  readonly leftMs: number;
}

export interface RecordingUpstream {
  readonly url: string;
  /** What arrived so far, by the number in the path. A number that came twice is an error. */
  visits(): Promise<ReadonlyMap<number, Visit>>;
}

export async function startRecordingUpstream(cleanup: Cleanup): Promise<RecordingUpstream> {
  const thread = new Worker(new URL("./upstream-thread.ts", import.meta.url));
  cleanup(() => thread.terminate());
  const [port] = await once(thread, "message");
  return {
    url: `http://127.0.0.1:${port}`,
    async visits() {
      thread.postMessage("visits");
      const [record]: Float64Array[] = await once(thread, "message");
      const visits = new Map<number, Visit>();
      for (let i = 0; i + 2 < (record?.length ?? 0); i += 3) {
        const [number, arrivedMs, leftMs] = [...(record?.subarray(i, i + 3) ?? [])] as [number, number, number];
        if (visits.has(number)) throw new Error(`request ${number} was forwarded twice`);
        visits.set(number, { arrivedMs, leftMs: leftMs === Number.MAX_VALUE ? Number.POSITIVE_INFINITY : leftMs });
      }
      return visits;
    },
  };
}
