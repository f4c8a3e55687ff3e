// A worker thread that decides about clients as fast as it can, and logs its admissions with their instants in memory
// that all threads share. Started by `Fleet`.

import { workerData } from "node:worker_threads";
import { PolicyLimiter } from "../../../src/limits/limiter.ts";
import { assignSlots } from "../../../src/limits/policies.ts";
import { CounterTable } from "../../../src/limits/table/counter-table.ts";
import { SipHash } from "../../../src/limits/table/sip-hash.ts";
import { clockOf } from "../../support/clock.ts";
import { decided } from "../../support/decided.ts";
import { askedRequest, limitedRequest } from "../../support/limited-request.ts";
import { seededRandom } from "../../support/random.ts";
import { type FleetMemory, logWords, shared, sharedNowMs, type ThreadTask } from "./fleet.ts";

const { memory, task, thread } = workerData as { memory: FleetMemory; task: ThreadTask; thread: number };
const table = new CounterTable(memory.table, { secret: memory.secret, thread, isShared: true });
const counts = new Int32Array(memory.counts);
const log = new Float64Array(memory.log);
const random = seededRandom(thread + task.seed);
const requests = Array.from({ length: task.clients }, (_, i) => limitedRequest({ client: `192.0.2.${i}` }));

let decisions = 0;
/** The last instant that anybody here has read. */
let readMs = 0;
const clock = clockOf(
  () => {
    // Here the locks are held.
    if (decisions === task.blocksAt) block();
    readMs = sharedNowMs();
    return readMs;
  },
  () => 1_700_000_000_000,
);
const { policies } = task;
const slots = assignSlots(policies, []);
const limiter = new PolicyLimiter(policies, { table, slots, hash: new SipHash(memory.secret), clock });

Atomics.add(counts, shared.ready, 1);
Atomics.wait(counts, shared.go, 0);
while (Atomics.add(counts, shared.left, -1) > 0) {
  const client = Math.floor(random() * task.clients);
  const { request, head } = requests[client] as ReturnType<typeof limitedRequest>;
  const beforeMs = sharedNowMs();
  readMs = beforeMs;
  const decision = decided(limiter.ask(askedRequest(request, head, beforeMs), "anonymous"));
  const tookMs = sharedNowMs() - beforeMs;
  decisions += 1;
  if (tookMs * 1000 > Atomics.load(counts, shared.longestUs)) {
    Atomics.store(counts, shared.longestUs, Math.ceil(tookMs * 1000));
  }
  if (decision.outcome !== "admitted") continue;
  const at = Atomics.add(counts, shared.logged, 1) * logWords;
  log[at] = client;
  log[at + 1] = readMs;
  if (decision.held !== null) {
    // The slot is held until this instant at least, and taken at the earliest when the clock was read.
    log[at + 2] = sharedNowMs();
    decision.held.end(200);
  }
}
Atomics.add(counts, shared.done, 1);

function block(): void {
  Atomics.store(counts, shared.blocked, thread);
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
}
