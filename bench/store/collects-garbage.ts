// Loaded before a gateway: its garbage is collected in full several times a second, with a heap of a few ten megabytes.
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

setFlagsFromString("--expose-gc");
const collect: () => void = runInNewContext("gc");
const heap = Array.from({ length: 300_000 }, (_, i) => ({ i, text: `object ${i}` }));
setInterval(() => {
  heap[heap.length - 1] = { i: 0, text: "" };
  collect();
}, 200).unref();
