// What `headgate console --json` prints, as JSON Schema. At run time its type alone is used.
import { type Static, Type } from "typebox";

export const Console = Type.Object(
  {
    url: Type.String({ description: "Of the port, with a slash at its end." }),
    token: Type.String({ description: "For Authorization: Bearer, until the command ends." }),
    isReadOnly: Type.Boolean({ description: "Calls that change something get 403." }),
  },
  { additionalProperties: false },
);

export type OpenedConsole = Static<typeof Console>;
