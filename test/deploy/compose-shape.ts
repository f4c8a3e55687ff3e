// The fields of a Compose file that ours use, and what each may hold.
import { either, list, type Mapping, mapping, object, oneOf, type Shape, text, whole } from "./shape.ts";

const service = object({
  "build?": text(),
  "image?": text(/^[a-z0-9./-]+:v?\d+\.\d+\.\d+(?:-[a-z]+\.\d+)?$/),
  "command?": list(text(/^.*$/)),
  "environment?": mapping(/^(HEADGATE|GF)(_[A-Z0-9]+)+$/, text()),
  "ports?": list(text(/^127\.0\.0\.1:\d+:\d+$/)),
  "volumes?": list(text(/^(\.\/)?[\w./-]+:\/[\w./-]+(:ro)?$/)),
  "depends_on?": either(list(text()), mapping(/^[a-z]+$/, object({ condition: oneOf("service_healthy") }))),
  "networks?": list(text(/^[a-z]+$/)),
  "user?": text(/^\d+:\d+$/),
  "read_only?": oneOf(true),
  "cap_drop?": list(oneOf("ALL")),
  "security_opt?": list(oneOf("no-new-privileges:true")),
  "stop_grace_period?": text(/^\d+s$/),
  "healthcheck?": object({ test: list(text()), interval: text(/^\d+s$/), timeout: text(/^\d+s$/), retries: whole(1) }),
});
/** A volume without a setting is written with nothing behind it. */
const nothing: Shape = (value, place) => (value === null ? [] : [`${place}: not empty`]);
export const composeShape = object({
  name: text(),
  services: mapping(/^[a-z]+$/, service),
  "volumes?": mapping(/^[a-z]+$/, nothing),
  "networks?": mapping(/^[a-z]+$/, object({ internal: oneOf(true) })),
});

export interface Service {
  readonly image: string;
  readonly command?: readonly string[];
  readonly environment?: Readonly<Record<string, string>>;
  readonly volumes?: readonly string[];
  readonly networks?: readonly string[];
  readonly ports?: readonly string[];
  readonly healthcheck?: Mapping;
  readonly depends_on?: readonly string[] | Mapping;
  readonly stop_grace_period?: string;
}
