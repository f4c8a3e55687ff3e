// Why a check was refused without a decision. The texts are for the operator who sets an ingress up: the
// text says what is missing, and never repeats what was sent.
import { type LocalReply, localReplies } from "../core/local-reply.ts";

export type CheckProblem = Pick<LocalReply, "status" | "message" | "errMsg">;

const malformed = (errMsg: string): CheckProblem => ({ status: 400, message: "Bad Request", errMsg });

export const checkProblems = {
  untrusted: {
    status: 403,
    message: "Forbidden",
    errMsg: "This caller may not ask for decisions: see extAuth.trustedCallers and extAuth.secretsFile.",
  },
  noClient: malformed("X-Forwarded-For has to end with the address of the client."),
  noTarget: malformed("The target and the method of the request have to be named, each in exactly one header."),
  noEndpoint: {
    status: 404,
    message: "Not Found",
    errMsg: "Decisions are at /auth-request, /forward-auth and /ext-authz/.",
  },
  malformed: localReplies.malformed,
  headTooLarge: localReplies.headTooLarge,
  slow: localReplies.slowRequest,
} as const satisfies Record<string, CheckProblem>;
