// rate-limiter-flexible with Redis in front of @fastify/http-proxy, as its pages show it for Fastify and ioredis.
import httpProxy from "@fastify/http-proxy";
import fastify from "fastify";
import { Redis } from "ioredis";
import { RateLimiterRedis } from "rate-limiter-flexible";

const [, , port, upstream, max, timeWindowMs, key, redisPort] = process.argv;

const limiter = new RateLimiterRedis({
  storeClient: new Redis(Number(redisPort), "127.0.0.1"),
  points: Number(max),
  duration: Number(timeWindowMs) / 1000,
});
const app = fastify();
app.addHook("onRequest", async (request, reply) => {
  try {
    const result = await limiter.consume(key === "header" ? request.headers["x-client"] : request.ip);
    reply.header("X-RateLimit-Limit", max);
    reply.header("X-RateLimit-Remaining", result.remainingPoints);
    reply.header("X-RateLimit-Reset", Math.ceil(result.msBeforeNext / 1000));
  } catch (refusal) {
    if (refusal instanceof Error) throw refusal;
    reply.header("Retry-After", Math.ceil(refusal.msBeforeNext / 1000));
    reply.header("X-RateLimit-Limit", max);
    return reply.code(429).send({ message: "Too many requests" });
  }
});
await app.register(httpProxy, { upstream });
await app.listen({ host: "127.0.0.1", port: Number(port) });
