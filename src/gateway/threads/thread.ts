// The entry of a thread that carries traffic. Uses the cache of compiled code that main.ts describes, which takes more than
// half of the time from a thread's start.
import nodeModule from "node:module";
import path from "node:path";

nodeModule.enableCompileCache(path.join(import.meta.dirname, "../../../node_modules/.cache/headgate"));
await import("./run-thread.ts");
// A thread that is ended from outside would not write what it has compiled.
nodeModule.flushCompileCache();
