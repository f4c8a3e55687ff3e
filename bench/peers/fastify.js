// The stock Fastify pair: @fastify/rate-limit and @fastify/http-proxy with the options their pages begin with.
import httpProxy from "@fastify/http-proxy";
import rateLimit from "@fastify/rate-limit";
import fastify from "fastify";

const [, , port, upstream, max, timeWindowMs] = process.argv;

const app = fastify();
await app.register(rateLimit, { max: Number(max), timeWindow: Number(timeWindowMs) });
await app.register(httpProxy, { upstream });
await app.listen({ host: "127.0.0.1", port: Number(port) });
