// `npm run schema`: writes the files that are generated from the definition: the JSON Schema and the reference in
// docs/configuration.md. Tests fail if one of them is not up to date.
import { readFileSync, writeFileSync } from "node:fs";
import { jsonSchemaText } from "./json-schema.ts";
import { configReference } from "./reference.ts";

const begin = "<!-- all keys: npm run schema -->\n";
const end = "<!-- end of all keys -->";
const page = new URL("../../docs/configuration.md", import.meta.url);

writeFileSync(new URL("../headgate.schema.json", import.meta.url), jsonSchemaText());
const text = readFileSync(page, "utf8");
writeFileSync(
  page,
  text.slice(0, text.indexOf(begin) + begin.length) + configReference() + text.slice(text.indexOf(end)),
);
