// The OpenAPI document of the admin API with every call that a gateway can have. Answers no call.
import type { TypeBoxTypeProvider } from "@fastify/type-provider-typebox";
import { fastify } from "fastify";
import { type ApiListener, addRoutes } from "../../src/admin/api-routes.ts";
import type { ControlPlane } from "../../src/admin/control-plane.ts";

export interface ApiSchema {
  readonly type?: string;
  readonly description?: string;
  readonly properties?: Readonly<Record<string, ApiSchema>>;
  readonly required?: readonly string[];
  readonly items?: ApiSchema;
  readonly anyOf?: readonly ApiSchema[];
  readonly enum?: readonly unknown[];
  readonly additionalProperties?: boolean | ApiSchema;
  readonly format?: string;
}

interface Content {
  readonly content?: Readonly<Record<string, { readonly schema: ApiSchema }>>;
}

export interface ApiOperation {
  readonly summary: string;
  readonly tags: readonly string[];
  readonly parameters?: readonly {
    readonly name: string;
    readonly in: string;
    readonly description?: string;
    readonly schema: ApiSchema;
  }[];
  readonly requestBody?: Content;
  readonly responses: Readonly<Record<string, Content & { readonly description: string }>>;
}

export interface ApiDocument {
  readonly tags: readonly { readonly name: string; readonly description: string }[];
  readonly paths: Readonly<Record<string, Readonly<Record<string, ApiOperation>>>>;
}

export async function apiDocument(): Promise<ApiDocument> {
  const app = fastify();
  // Nothing of it is called.
  const plane = { recent: {}, clients: {}, rules: {} } as unknown as ControlPlane;
  await addRoutes(app.withTypeProvider<TypeBoxTypeProvider>(), plane, {} as ApiListener, "0.0.0");
  await app.ready();
  const document: unknown = app.swagger();
  await app.close();
  return JSON.parse(JSON.stringify(document)) as ApiDocument;
}
