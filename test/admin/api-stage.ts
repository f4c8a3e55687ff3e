// The admin listener with its API on free ports of loopback, and a client that can send anything.
import { request as send } from "node:http";
import { request as sendSecurely } from "node:https";
import { expect } from "vitest";
import type { AdminAccess } from "../../src/admin/access.ts";
import { AdminTokens } from "../../src/admin/admin-tokens.ts";
import type { AuditLine } from "../../src/admin/api-routes.ts";
import type { ControlPlane, Health } from "../../src/admin/control-plane.ts";
import { type Admin, type AdminOptions, startAdmin } from "../../src/admin/server.ts";
import type { SignInCode } from "../../src/admin/sign-in-code.ts";
import { systemClock } from "../../src/core/clock.ts";
import { digestOf } from "../auth/digest.ts";
import type { Cleanup } from "../support/cleanup.ts";

export const readToken = "reading-token";
export const writeToken = "writing-token";

export const listedTokens = new AdminTokens([
  { digest: digestOf(readToken), name: "dashboard", role: "read" },
  { digest: digestOf(writeToken), name: "ops", role: "write" },
]);

export interface ApiStage extends Admin {
  readonly audit: AuditLine[];
  readonly failures: unknown[];
  /** What a test changes, as a reload does. */
  access: AdminAccess;
  /** Over TCP, or over the Unix socket if `socketPath` is given. */
  call(method: string, path: string, call?: Call): Promise<Answer>;
}

export interface Call {
  readonly headers?: Readonly<Record<string, string>>;
  /** Sent as JSON with its content type, unless it is text. */
  readonly body?: unknown;
  readonly token?: string | null;
  readonly socketPath?: string;
  readonly localAddress?: string;
  /** Of the authority; then the connection has TLS. */
  readonly ca?: string;
  readonly port?: number;
}

export interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly text: string;
  /** Undefined if it is no JSON. */
  readonly json: unknown;
}

export function call(port: number, method: string, path: string, options: Call = {}): Promise<Answer> {
  const { token = writeToken, body, socketPath, localAddress, ca } = options;
  const text = body === undefined ? "" : typeof body === "string" ? body : JSON.stringify(body);
  const headers: Readonly<Record<string, string>> = {
    ...(token === null ? {} : { authorization: `Bearer ${token}` }),
    ...(body === undefined ? {} : { "content-length": `${Buffer.byteLength(text)}` }),
    ...(body === undefined || typeof body === "string" ? {} : { "content-type": "application/json" }),
    ...options.headers,
  };
  const where = socketPath === undefined ? { host: "127.0.0.1", port } : { socketPath };
  const local = localAddress === undefined ? {} : { localAddress };
  return new Promise((resolve, reject) => {
    const one = {
      ...where,
      ...local,
      method,
      path,
      headers,
      agent: false,
      setDefaultHeaders: headers["host"] === undefined,
    } as const;
    const outgoing = ca === undefined ? send(one) : sendSecurely({ ...one, ca, servername: "localhost" });
    outgoing.on("error", reject);
    outgoing.on("response", async (response) => {
      const chunks: Buffer[] = [];
      try {
        for await (const chunk of response) chunks.push(chunk);
      } catch (error) {
        reject(error);
      }
      const received = Buffer.concat(chunks).toString();
      resolve({ status: response.statusCode ?? 0, headers: response.headers, text: received, json: parsed(received) });
    });
    outgoing.end(text);
  });
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

export const ready: Health = {
  status: "ready",
  upstream: { state: "up", reason: null },
  store: null,
  rules: null,
  tokens: null,
};

/** The listener alone, without an API unless `changes` has one. A failure is one of the test. */
export async function openAdmin(cleanup: Cleanup, changes: Partial<AdminOptions> = {}): Promise<Admin> {
  const admin = await startAdmin({
    ...{ host: "127.0.0.1", port: 0, socket: null, certificate: null, api: null },
    clock: systemClock,
    metrics: async () => ({ contentType: "text/plain", body: "x 1\n" }),
    isAlive: () => true,
    health: () => ready,
    onError: (error) => expect.unreachable(error.message),
    onFailure: (error) => expect.unreachable(String(error)),
    peerKey: (address) => address ?? "",
    onClosedForRoom: () => {},
    ...changes,
  });
  cleanup(() => admin.close());
  return admin;
}

export async function stageApi(
  cleanup: Cleanup,
  plane: ControlPlane,
  changes: Partial<AdminOptions> & { readonly access?: Partial<AdminAccess>; readonly signIn?: SignInCode } = {},
): Promise<ApiStage> {
  const { access = {}, signIn, ...options } = changes;
  const audit: AuditLine[] = [];
  const failures: unknown[] = [];
  const inForce: { current: AdminAccess } = {
    current: { tokens: { value: listedTokens }, hosts: [], listenHost: "127.0.0.1", ...access },
  };
  let id = 0;
  const admin = await openAdmin(cleanup, {
    onError: (error) => void failures.push(error),
    onFailure: (error) => void failures.push(error),
    api: {
      plane,
      access: () => inForce.current,
      nowMs: systemClock.monotonicMs,
      newId: () => `id-${++id}`,
      version: "0.0.0-test",
      onWrite: (line) => void audit.push(line),
      onFailure: (error) => void failures.push(error),
      signIn,
    },
    ...options,
  });
  return {
    ...admin,
    audit,
    failures,
    get access() {
      return inForce.current;
    },
    set access(next) {
      inForce.current = next;
    },
    call: (method, path, options = {}) => call(options.port ?? admin.port, method, path, options),
  };
}
