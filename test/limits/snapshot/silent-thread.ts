// A thread that takes what it is given and says nothing, like one that waits for a disk.
import { parentPort } from "node:worker_threads";

parentPort?.on("message", () => {});
