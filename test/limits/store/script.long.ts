// The script on a real server answers as its model does, which the simulation stands on.
import { describe, test } from "vitest";
import { redisNeeded, skipRedis } from "../../support/redis-servers.ts";
import { fifth } from "../../support/runs.ts";
import { compareWithModel } from "./call-sequences.ts";
import { type RealScript, useRealScript } from "./real-script.ts";

describe.skipIf(skipRedis)(`the script and its model${redisNeeded}`, () => {
  let script: RealScript;

  useRealScript((opened) => {
    script = opened;
  });

  test("answer the same to any sequence of calls", () => compareWithModel(script, fifth(6_000), 100));
});
