// The gate of each app that has one, by its server: the constructor's options are made before there is an app.
import type { Server } from "node:http";
import type { Gate } from "./gate.ts";

export const gates = new WeakMap<Server, Gate>();
