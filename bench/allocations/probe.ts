// Loaded into the measured gateway with `--import`. Answers the bench with what the process has allocated so far, or with
// a profile of who allocates. Between two questions it does nothing, so it adds nothing to a request.
import { Session } from "node:inspector/promises";
import { dirname, relative } from "node:path";
import { PerformanceObserver } from "node:perf_hooks";
import { fileURLToPath } from "node:url";
import { getHeapStatistics, setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

export type Question = "collect" | "count" | "begin profile" | "end profile";

/** Since the process began. */
export interface Counters {
  /** Of all objects on V8's heap, those that have been collected too. */
  readonly heapBytes: number;
  /** Of buffers outside the heap that have not been freed. */
  readonly bufferBytes: number;
  readonly collections: number;
}

export interface Profile {
  readonly objects: number;
  readonly bytes: number;
  readonly places: readonly Place[];
}

/** A function as `name file:line` and what it allocates itself. */
export interface Place {
  readonly place: string;
  readonly objects: number;
  readonly bytes: number;
}

/** Of the inspector's answer, whose types leave a part of it out. */
interface SamplingProfile {
  readonly head: ProfileNode;
  readonly samples: readonly { readonly nodeId: number; readonly size: number }[];
}

interface ProfileNode {
  readonly id: number;
  readonly callFrame: { readonly functionName: string; readonly url: string; readonly lineNumber: number };
  readonly children: readonly ProfileNode[];
}

/** Smaller than the smallest object, so each object is a sample. */
const samplingInterval = 8;
const everyObject = {
  samplingInterval,
  includeObjectsCollectedByMajorGC: true,
  includeObjectsCollectedByMinorGC: true,
};

let collections = 0;
new PerformanceObserver((list) => {
  collections += list.getEntries().length;
}).observe({ entryTypes: ["gc"] });

setFlagsFromString("--expose-gc");
const collect: () => void = runInNewContext("gc");
const session = new Session();
session.connect();

process.on("message", (question: Question) => {
  void answer(question).then((reply) => process.send?.(reply));
});

async function answer(question: Question): Promise<Counters | Profile | null> {
  switch (question) {
    case "collect":
      collect();
      return null;
    case "count": {
      const { total_allocated_bytes: heapBytes } = getHeapStatistics() as unknown as { total_allocated_bytes: number };
      const bufferBytes = process.memoryUsage().arrayBuffers;
      // The observer hears of a collection in a later turn.
      await new Promise((resolve) => setTimeout(resolve, 10));
      return { heapBytes, bufferBytes, collections };
    }
    case "begin profile":
      await session.post("HeapProfiler.startSampling", everyObject);
      return null;
    case "end profile": {
      const { profile } = await session.post("HeapProfiler.stopSampling");
      return summary(profile as unknown as SamplingProfile);
    }
  }
}

function summary({ head, samples }: SamplingProfile): Profile {
  const names = new Map<number, string>();
  const name = (node: ProfileNode): void => {
    names.set(node.id, placeOf(node));
    for (const child of node.children) name(child);
  };
  name(head);
  const places = new Map<string, { place: string; objects: number; bytes: number }>();
  for (const { nodeId, size } of samples) {
    const place = names.get(nodeId) ?? "";
    const found = places.get(place) ?? { place, objects: 0, bytes: 0 };
    places.set(place, { place, objects: found.objects + 1, bytes: found.bytes + size });
  }
  return {
    objects: samples.length,
    bytes: samples.reduce((sum, { size }) => sum + size, 0),
    places: [...places.values()].toSorted((a, b) => b.bytes - a.bytes),
  };
}

function placeOf({ callFrame: { functionName, url, lineNumber } }: ProfileNode): string {
  const name = functionName === "" ? "(anonymous)" : functionName;
  if (url === "") return name;
  const file = url.startsWith("file:") ? relative(dirname(process.argv[1] ?? ""), fileURLToPath(url)) : url;
  return `${name} ${file}:${lineNumber + 1}`;
}
