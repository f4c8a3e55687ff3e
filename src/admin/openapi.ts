// What the OpenAPI document says beside the calls, whose schemas are their own.
import swagger from "@fastify/swagger";
import type { FastifyInstance } from "fastify";

/** Must be added before the routes, which it notices. */
export async function addDocumentation(app: FastifyInstance, version: string): Promise<void> {
  await app.register(swagger, {
    openapi: {
      openapi: "3.1.0",
      info: {
        title: "Headgate admin API",
        version,
        description:
          "What the gateway is doing, and what it can be told to do. Over TCP each call needs a token of " +
          "`admin.tokensFile`; over the Unix socket `admin.socket` it needs none.",
        license: { name: "MIT", identifier: "MIT" },
      },
      servers: [{ url: "/", description: "The admin listener" }],
      components: { securitySchemes: { token: { type: "http", scheme: "bearer" } } },
      security: [{ token: [] }],
      tags: [
        { name: "gateway", description: "The gateway as a whole." },
        { name: "traffic", description: "What clients have used, and what was refused." },
        { name: "rules", description: "Rules that are set while the gateway runs." },
      ],
    },
  });
}
