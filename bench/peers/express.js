// Express with express-rate-limit and http-proxy-middleware, with the options their pages begin with. The connections
// to the upstream are kept, as they are for everybody else here.
import { Agent } from "node:http";
import express from "express";
import { rateLimit } from "express-rate-limit";
import { createProxyMiddleware } from "http-proxy-middleware";

const [, , port, upstream, limit, windowMs] = process.argv;

const app = express();
app.use(rateLimit({ windowMs: Number(windowMs), limit: Number(limit), standardHeaders: "draft-6" }));
app.use(createProxyMiddleware({ target: upstream, agent: new Agent({ keepAlive: true }) }));
app.listen(Number(port), "127.0.0.1");
