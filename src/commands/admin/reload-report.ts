// `headgate reload`, `confirm`, `take-back` and `drain`.
import type { ReloadAnswer, Status } from "../../admin/control-plane.ts";
import { describeChange } from "../../core/reload.ts";
import { CommandError, exitCodes } from "../io.ts";
import type { ConnectedGateway } from "./connect.ts";
import type { ConnectionArguments, TrialArguments } from "./invocation.ts";
import { commandText, durationText, type Report } from "./printed.ts";

/** Rejects with a CommandError that has the errors of the configuration, if it has some. */
export async function reportReload(
  { client, status }: ConnectedGateway,
  trial: TrialArguments | null,
  connection: ConnectionArguments,
): Promise<Report> {
  try {
    const answer = await client.reload(trial);
    // What was to be tried is in force already, by a watched file perhaps.
    const isUntried = trial !== null && answer.trial === null;
    return {
      answer,
      lines: () => [...reloadLines(answer, status), ...trialLines(answer, trial, connection)],
      warnings: [...answer.loosened.map((key) => `${key}: it gives up protection`), ...(isUntried ? [untried] : [])],
      exitCode: isUntried ? exitCodes.refused : exitCodes.ok,
    };
  } catch (error) {
    if (!(error instanceof CommandError) || error.exitCode !== exitCodes.refused) throw error;
    const { message, details, cause } = error;
    throw new CommandError(
      exitCodes.refused,
      "nothing is reloaded, the configuration from before holds",
      [message, ...details],
      cause,
    );
  }
}

const untried =
  "nothing is on trial: the file has what is in force. With reload.watch, a saved file is in force by itself; reload.trial " +
  "puts it on trial";

function reloadLines({ outcome, changed, changes, reset, restart, trial }: ReloadAnswer, before: Status): string[] {
  const hasStore = before.store !== null;
  // What has new contents in its file has no values to show.
  const others = changed.filter((key) => !changes.some((change) => `${change.key}.`.startsWith(`${key}.`)));
  return [
    outcome === "applied" ? "Reloaded." : "Nothing has changed.",
    ...(before.trial !== null && trial === null ? ["What was on trial is confirmed by this reload."] : []),
    ...changes.map((change) => `  ${describeChange(change, hasStore)}`),
    ...others.map((key) => `  ${key}: read again`),
    ...reset.map((name) => `  policies.${name}: starts empty, because its name, kind or key is new`),
    ...restart.map((key) => `  ${key}: needs a restart`),
  ];
}

function trialLines(answer: ReloadAnswer, trial: TrialArguments | null, connection: ConnectionArguments): string[] {
  if (trial === null || answer.trial === null) return [];
  const { confirmWithinMs, refusedShare, unconfirmed } = trial;
  const end = unconfirmed === "keep" ? "it stays" : "it is taken back";
  return [
    `It is on trial: in ${durationText(confirmWithinMs / 1000)}, ${end}.`,
    ...(refusedShare === null
      ? []
      : [
          `It is taken back as soon as it has refused 20 requests, and more than ${refusedShare * 100} % of what the old one admits.`,
        ]),
    `To keep it:      ${commandText(["confirm"], connection)}`,
    `To take it back: ${commandText(["take-back"], connection)}`,
  ];
}

export async function reportTrialEnd({ client }: ConnectedGateway, how: "confirm" | "take-back"): Promise<Report> {
  const answer = how === "confirm" ? await client.confirm() : await client.takeBack();
  const line = how === "confirm" ? "The configuration stays." : "The configuration from before is in force again.";
  return { answer, lines: () => [line] };
}

export async function reportDrain({ client }: ConnectedGateway): Promise<Report> {
  const answer = await client.drain();
  const { delaySeconds, timeoutSeconds } = answer;
  return {
    answer,
    lines: () => [
      "The gateway drains, and ends.",
      ...(delaySeconds > 0 ? [`New connections are accepted for ${durationText(delaySeconds)}.`] : []),
      `Requests in progress may take ${durationText(timeoutSeconds)}.`,
    ],
  };
}
