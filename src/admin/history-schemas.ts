// What the calls about the last 15 minutes take and answer, as JSON Schema; see schemas.ts.
import { storeStates } from "../core/store-link.ts";
import { count, countsByName, instant, object, orNull, seconds, stepsPattern, Type, text } from "./schema-kinds.ts";

const latency = orNull(object({ p50: seconds(""), p90: seconds(""), p99: seconds("") }, "Null: there was none."));

export const HistoryQuery = object({
  steps: Type.Optional(
    text("At most so many of the newest, from 1 to 180, for who has the others; without it, all.", {
      pattern: stepsPattern,
    }),
  ),
});

export const History = object({
  stepSeconds: seconds("The length of a step."),
  end: orNull(instant("The end of the last step. Null: none has ended.")),
  steps: Type.Array(
    orNull(
      object({
        seconds: seconds("How long it was: more than a step after a gap."),
        admitted: count("Requests that were not refused by the gateway."),
        refused: countsByName("Requests that the gateway refused, by reason."),
        latencySeconds: latency,
        upstream: object({
          answered: count("Responses, without those that broke off."),
          meanSeconds: orNull(seconds("Until the head of a response. Null: there was none.")),
          abandoned: count("Requests whose client left before the upstream answered."),
          latencySeconds: latency,
          failedByReason: countsByName("Requests that the upstream failed, by reason."),
        }),
        store: orNull(
          object({
            state: Type.Enum(storeStates),
            lateDecisions: count("Requests that were decided without the store, because it was late."),
          }),
        ),
        memory: object(
          {
            residentBytes: count("As the system counts it."),
            heapBytes: count("Objects of JavaScript, of all threads."),
            externalBytes: count("Buffers outside these heaps; those that threads share are counted by each."),
          },
          "Of the process, at the end of the step.",
        ),
      }),
    ),
    { description: "One for each 5 s, the oldest first; null: the gateway could not count." },
  ),
});

const countsOfSteps = (description: string) => Type.Array(orNull(count("")), { description });

export const PolicyHistory = object({
  stepSeconds: seconds("The length of a step."),
  end: orNull(instant("The end of the last step. Null: none has ended.")),
  seconds: Type.Array(orNull(seconds("")), {
    description:
      "How long each step was, the oldest first: more than a step after a gap; null: the gateway could not count.",
  }),
  policies: Type.Array(
    object({
      policy: text("Its name."),
      admitted: countsOfSteps("Of each step: requests that were charged. Null: there was no such policy."),
      throttled: countsOfSteps("Requests that were refused."),
      would_throttle: countsOfSteps("Requests that were admitted because it is a shadow."),
      unavailable: countsOfSteps("Requests that were refused because the shared store was away."),
    }),
    { description: "Those in force, and those that were within these minutes; 64 at most." },
  ),
});
