// A process that logs to a standard output nobody reads: started by destination.programs.ts.
import { openDestination } from "../../src/telemetry/destination.ts";
import { createLog } from "../../src/telemetry/log.ts";

const destination = openDestination({ fd: 1, flushTimeoutMs: 200 });
const log = createLog({ level: "info", destination });
process.stdin.once("data", () => {
  for (let i = 0; i < 5_000; i++) log.info({ i }, "hello");
  log.flush(() => {
    log.info("one more");
    log.flush(() => process.stderr.write(`flushed, ${destination.dropped} dropped\n`));
  });
  process.stdin.destroy();
});
process.stderr.write("ready\n");
