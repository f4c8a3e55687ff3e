// What commands print with `--json` beside answers of the admin API, as JSON Schema. At run time the types alone are
// used.
import { type Static, Type } from "typebox";
import { ClientState, RequestAnswer, Rule } from "../../admin/schemas.ts";

export const Console = Type.Object(
  {
    url: Type.String({ description: "Of the port, with a slash at its end." }),
    token: Type.String({ description: "For Authorization: Bearer, until the command ends." }),
    isReadOnly: Type.Boolean({ description: "Calls that change something get 403." }),
  },
  { additionalProperties: false },
);

export type OpenedConsole = Static<typeof Console>;

const text = (description: string) => Type.String({ description });
const orNull = <S extends Type.TSchema>(schema: S) => Type.Union([schema, Type.Null()]);

/**
 * What `headgate why --json` prints, as JSON Schema: answers of the admin API, and what follows from them in sentences.
 * At run time its types alone are used.
 */
export const Why = Type.Object(
  {
    asked: text("As it was written."),
    request: orNull(RequestAnswer),
    client: orNull(ClientState),
    refusals: Type.Array(RequestAnswer, { description: "The last ones of the client, the newest first; at most 10." }),
    /** Those that are about the client, and the one that has refused the request. */
    rules: Type.Array(Rule),
    state: Type.Enum(["blocked", "throttled", "exempt", "open", "unknown"], {
      description: "How the client is treated now; unknown: nothing is counted for it.",
    }),
    explanation: Type.Array(Type.String(), { description: "In sentences." }),
    settings: Type.Array(
      Type.Object(
        {
          policy: text(""),
          key: text("Of its limit in the configuration; a policy stands by its name."),
          place: orNull(text("Where it was written. Null: it has its default, or a program passed it.")),
        },
        { additionalProperties: false },
      ),
      { description: "Of the policies that refuse the client." },
    ),
    commands: Type.Array(
      Type.Object({ does: text(""), command: text("For a shell.") }, { additionalProperties: false }),
      { description: "What changes it." },
    ),
  },
  { additionalProperties: false },
);

export type WhyAnswer = Static<typeof Why>;
