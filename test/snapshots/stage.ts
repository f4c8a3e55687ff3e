// A gateway in a process of its own that keeps snapshots, and a client of it.
import { get } from "node:http";
import type { Cleanup } from "../support/cleanup.ts";
import { type GatewayProcess, startGatewayProcess } from "../support/gateway-process.ts";

export interface Answer {
  readonly status: number;
  readonly remaining: number;
  readonly reset: number;
}

export interface StagedGateway extends GatewayProcess {
  ask(path?: string): Promise<Answer>;
  askTimes(times: number, path?: string): Promise<Answer[]>;
}

/** `path`: of the snapshot. `settings`: as `--set` takes them. */
export async function startWithSnapshot(
  cleanup: Cleanup,
  upstreamUrl: string,
  path: string,
  settings: readonly string[] = [],
  env: Readonly<Record<string, string>> = {},
): Promise<StagedGateway> {
  const snapshot = [`counters.snapshot.path=${path}`, "counters.snapshot.every=1s", "auth.mode=off"];
  const gateway = await startGatewayProcess(cleanup, upstreamUrl, [...snapshot, ...settings], { env });
  const ask = (path = "/v1/x") => askOnce(gateway.port, path);
  const askTimes = async (times: number, path?: string): Promise<Answer[]> => {
    const answers: Answer[] = [];
    for (let i = 0; i < times; i += 1) answers.push(await ask(path));
    return answers;
  };
  return { ...gateway, ask, askTimes };
}

function askOnce(port: number, path: string): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const request = get({ host: "127.0.0.1", port, path }, (response) => {
      response.resume();
      response.once("end", () => {
        const { statusCode = 0, headers } = response;
        const remaining = Number(headers["ratelimit-remaining"]);
        resolve({ status: statusCode, remaining, reset: Number(headers["ratelimit-reset"]) });
      });
    });
    request.once("error", reject);
  });
}
