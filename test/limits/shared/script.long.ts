// The script on a real server answers as its model does, which the simulation stands on. More and longer
// sequences than in script.test.ts.
import { afterAll, beforeAll, describe, test } from "vitest";
import { type RedisServer, redisNeeded, skipRedis, startRedis } from "../../support/redis-servers.ts";
import { compareWithModel } from "./call-sequences.ts";
import { RealScript } from "./real-script.ts";

describe.skipIf(skipRedis)(`the script and its model${redisNeeded}`, () => {
  let server: RedisServer;
  let script: RealScript;

  beforeAll(async () => {
    server = await startRedis();
    script = await RealScript.open(server.port);
  });
  afterAll(async () => {
    script.client.close();
    await server.stop();
  });

  test("answer the same to any sequence of calls", () => compareWithModel(script, 6_000, 100));
});
