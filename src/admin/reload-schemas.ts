// What the calls about reloads and their trials take and answer, as JSON Schema; see schemas.ts.
import { confirmReasons, reloadCauses, takeBackReasons, unconfirmedEnds } from "../core/reload.ts";
import { count, durationPattern, instant, object, orNull, Type, text, texts } from "./schema-kinds.ts";

/** Who has asked for a reload, or for the end of a trial. */
export const reloadCaller = orNull(text("Who asked: the name of the token, or `socket`. Null: nobody."));

export const reloadCause = Type.Enum(reloadCauses, {
  description: "signal: SIGHUP. file: a file has changed. call: a program asked for it. trial: one was taken back.",
});

export const ReloadSummary = object({
  at: instant("When it was over."),
  by: reloadCause,
  caller: reloadCaller,
  outcome: Type.Enum(["applied", "unchanged", "failed"]),
  errors: texts("What was wrong with the configuration: then none of its values has changed."),
  refused: texts("Keys whose files are missing or wrong: their last good version stays in use."),
});

/** Of a key. */
export const Change = object({
  key: text("Dotted; a policy stands by its name."),
  from: orNull(text("As it would be written. Null: it was not there.")),
  to: orNull(text("Null: it is not there any more.")),
});

export const ReloadTrial = object(
  {
    since: instant("When it began."),
    cause: reloadCause,
    by: reloadCaller,
    ends: instant("Until then it has to be confirmed."),
    unconfirmed: Type.Enum(unconfirmedEnds, {
      description: "What happens then. takeBack: the configuration before comes back. keep: it is confirmed.",
    }),
    refusedShare: orNull(
      Type.Number({ description: "As in POST /api/reload. Null: it is not judged.", minimum: 0, exclusiveMaximum: 1 }),
    ),
    judged: count("Requests that the configuration before would have admitted, at most 100 of a client in 10 s."),
    refused: count("Those of them that were throttled."),
    changed: texts("Keys whose values differ from those of the configuration before."),
    changes: Type.Array(Change, {
      description: "Their values before and now. Long ones are shortened, and at most 100 are listed.",
    }),
  },
  "A configuration on trial.",
);

const trialReason = {
  description:
    "asked: by a call. time: it was over. refused: too many requests were. reload: another one, that is not on trial, came.",
};

export const TrialEnd = object(
  {
    at: instant("When it was over."),
    outcome: Type.Enum(["confirmed", "taken_back"]),
    reason: Type.Enum([...new Set([...confirmReasons, ...takeBackReasons])], trialReason),
    by: reloadCaller,
    trial: ReloadTrial,
  },
  "The last trial that is over. Null: there was none since the start.",
);

const trialTime = text('1s to 24h: a trial, which has to be confirmed within this time, such as "5m".', {
  pattern: durationPattern,
});

export const ReloadWanted = object(
  {
    dryRun: Type.Optional(
      Type.Boolean({
        description:
          "true: answers with the outcome and the changes that a reload would have, and changes nothing. Files that the configuration names are not opened.",
      }),
    ),
    confirmWithin: Type.Optional(trialTime),
    unless: Type.Optional(
      object({
        refusedShare: Type.Number({
          minimum: 0,
          exclusiveMaximum: 1,
          description:
            "A share from 0 to below 1, such as 0.05. It is taken back as soon as at least 20 requests, and more than this share, are throttled that the configuration before would have admitted.",
        }),
      }),
    ),
    unconfirmed: Type.Optional(
      Type.Enum(unconfirmedEnds, {
        description:
          "When nobody confirms it in time: takeBack, which is the default, or keep, which stands for a confirmation.",
      }),
    ),
  },
  "Without keys: not on trial.",
);

export const ReloadAnswer = object({
  outcome: Type.Enum(["applied", "unchanged"]),
  changed: texts("Keys whose new values are in force, or whose files have new contents."),
  changes: Type.Array(Change),
  reset: texts("Policies that have started empty, because their name, kind or key is new."),
  loosened: texts("Changed keys by which protection was given up."),
  restart: texts("Keys whose new values need a restart."),
  trial: orNull(ReloadTrial),
});

export const ConfirmAnswer = object({ confirmed: ReloadTrial });
