// The services as an implementation that others wrote speaks them: protobufjs encodes and decodes by .proto files of the
// tests' own, @grpc/grpc-js carries it. Nothing here is shared with the code that is tested.
import { join } from "node:path";
import { loadSync, type MethodDefinition } from "@grpc/proto-loader";

const protos = loadSync(
  ["external_auth.proto", "rls.proto", "health.proto"].map((file) => join(import.meta.dirname, "protos", file)),
  { keepCase: true, longs: Number, enums: String, defaults: true, oneofs: true, arrays: true },
);

export type Method = MethodDefinition<object, object>;

export const check = method("envoy.service.auth.v3.Authorization", "Check");
export const shouldRateLimit = method("envoy.service.ratelimit.v3.RateLimitService", "ShouldRateLimit");
export const healthCheck = method("grpc.health.v1.Health", "Check");
export const healthWatch = method("grpc.health.v1.Health", "Watch");

function method(service: string, name: string): Method {
  const definition = (protos[service] as Record<string, Method> | undefined)?.[name];
  if (definition === undefined) throw new Error(`there is no ${service}/${name}`);
  return definition;
}
