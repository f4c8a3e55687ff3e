// The stock Fastify pair with the store that its page names for several instances. Counts by the header X-Client if told so.
import httpProxy from "@fastify/http-proxy";
import rateLimit from "@fastify/rate-limit";
import fastify from "fastify";
import { Redis } from "ioredis";

const [, , port, upstream, max, timeWindowMs, key, redisPort] = process.argv;

const app = fastify();
await app.register(rateLimit, {
  max: Number(max),
  timeWindow: Number(timeWindowMs),
  redis: new Redis(Number(redisPort), "127.0.0.1"),
  keyGenerator: (request) => (key === "header" ? request.headers["x-client"] : request.ip),
});
await app.register(httpProxy, { upstream });
await app.listen({ host: "127.0.0.1", port: Number(port) });
