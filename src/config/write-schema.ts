// `npm run schema`: writes the JSON Schema anew. A test fails while the file differs from the definition.
import { writeFileSync } from "node:fs";
import { jsonSchemaText } from "./json-schema.ts";

writeFileSync(new URL("../../config/headgate.schema.json", import.meta.url), jsonSchemaText());
