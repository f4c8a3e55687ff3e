// What commands print with `--json` beside answers of the admin API, as JSON Schema. At run time the types alone are
// used.
import type { Static } from "typebox";
import { flag, object, orNull, Type, text, texts } from "../../admin/schema-kinds.ts";
import { ClientState, RequestAnswer, Rule } from "../../admin/schemas.ts";

export const Console = object({
  url: text("Of the port, with a slash at its end."),
  token: text("For Authorization: Bearer, until the command ends."),
  isReadOnly: flag("Calls that change something get 403."),
});

export type OpenedConsole = Static<typeof Console>;

/**
 * What `headgate why --json` prints, as JSON Schema: answers of the admin API, and what follows from them in sentences.
 * At run time its types alone are used.
 */
export const Why = object({
  asked: text("As it was written."),
  request: orNull(RequestAnswer),
  client: orNull(ClientState),
  refusals: Type.Array(RequestAnswer, { description: "The last ones of the client, the newest first; at most 10." }),
  /** Those that are about the client, and the one that has refused the request. */
  rules: Type.Array(Rule),
  state: Type.Enum(["blocked", "throttled", "exempt", "open", "unknown"], {
    description: "How the client is treated now; unknown: nothing is counted for it.",
  }),
  explanation: texts("In sentences."),
  settings: Type.Array(
    object({
      policy: text(""),
      key: text("Of its limit in the configuration; a policy stands by its name."),
      place: orNull(text("Where it was written. Null: it has its default, or a program passed it.")),
    }),
    { description: "Of the policies that refuse the client." },
  ),
  commands: Type.Array(object({ does: text(""), command: text("For a shell.") }), { description: "What changes it." }),
});

export type WhyAnswer = Static<typeof Why>;
