// A gateway without sockets, of which an operator asks about clients: the real pipeline, a clock that a test moves.
import { hash } from "node:crypto";
import { createAuthenticator, createDemandReader } from "../../src/auth/authenticator.ts";
import { TokenList } from "../../src/auth/tokens-file.ts";
import type { Quota } from "../../src/client/index.ts";
import { verifiesTokens } from "../../src/core/authentication.ts";
import { readPeer } from "../../src/core/client-address.ts";
import type { Held } from "../../src/core/policy.ts";
import type { Verdict } from "../../src/core/request-head.ts";
import type { ForgivenKey, Rule } from "../../src/core/rules.ts";
import { RulesInForce } from "../../src/core/rules-in-force.ts";
import type { Settings } from "../../src/core/settings.ts";
import { Clients, type TriedRequest } from "../../src/gateway/clients.ts";
import { createClientControl } from "../../src/gateway/control/client-control.ts";
import { clientAddressRules, quotaPathOf, requestRules } from "../../src/gateway/runtimes.ts";
import { PolicyLimiter } from "../../src/limits/limiter.ts";
import { createDecide } from "../../src/pipeline.ts";
import { reusedTable } from "../limits/small-table.ts";
import { FakeClock } from "../support/clock.ts";
import { decided } from "../support/decided.ts";
import { type Overrides, testSettings } from "../support/gateway.ts";

const digestOf = (token: string): string => hash("sha256", token, "hex");
const listed = new TokenList([
  { digest: digestOf("a"), name: "alice", scopes: ["read"] },
  { digest: digestOf("b"), name: "bob" },
]);

export class Stage {
  readonly clock = new FakeClock();
  readonly limiter: PolicyLimiter;
  readonly clients: Clients;
  readonly words: Int32Array;
  readonly rules = new RulesInForce();
  readonly #settings: Settings;
  readonly #decide: ReturnType<typeof createDecide>;
  readonly held: Held[] = [];

  constructor(overrides: Overrides) {
    this.#settings = testSettings("http://127.0.0.1:9", overrides);
    const settings = this.#settings;
    const table = reusedTable();
    this.words = table.memory.w;
    const file = { value: listed, isCurrent: true, onChange: () => {}, close: () => {} };
    const authenticator = createAuthenticator(verifiesTokens(settings.auth) ? file : null, this.clock);
    const tokensAreVerified = verifiesTokens(settings.auth);
    this.limiter = new PolicyLimiter(settings.policies, {
      ...{ clock: this.clock, table, tokensAreVerified, runtimeRules: this.rules },
    });
    const clientAddress = clientAddressRules(settings);
    const { limiter } = this;
    const files = { authenticator };
    this.#decide = createDecide({
      ...{
        rules: requestRules(settings, clientAddress, quotaPathOf(settings)),
        limiter,
        authenticator,
        refusals: null,
      },
      runtimeRules: this.rules,
      demandOf: createDemandReader(settings.auth, settings.routes, settings.basePath),
      nowMs: this.clock.monotonicMs,
    });
    this.clients = new Clients(() => ({ settings, limiter, files, clientAddress }), this.rules, this.clock);
  }

  /** Puts rules into force, with ids by their places. */
  set(rules: readonly Pick<Rule, "about" | "action" | "policy" | "limit">[]): void {
    const common = { setMs: 0, endsMs: Number.MAX_SAFE_INTEGER, note: "", setBy: "socket", revision: 1 };
    this.rules.apply({ set: rules.map((rule, i) => ({ ...rule, ...common, id: `rule-${i}` })), removed: [] });
  }

  async forgive(name: ForgivenKey) {
    const [forgiven] = await this.clients.forgive([{ name, seq: 0 }]);
    return forgiven;
  }

  /** What a request at `quota.path` is told; null: it is refused. */
  tell(request: Pick<TriedRequest, "client" | "rawHeaders">): Quota | null {
    const { localReply } = this.#decided({ ...request, method: "GET", target: this.#settings.quota.path ?? "" });
    return localReply?.status === 200 ? JSON.parse(localReply.body) : null;
  }

  #decided({ method, target, client, rawHeaders }: TriedRequest): Verdict {
    const peer = readPeer(client ?? "127.0.0.1", clientAddressRules(this.#settings));
    return decided(this.#decide({ peer, method, target, rawHeaders, httpVersion: "1.1" }, this.clock.nowMs));
  }

  send(request: TriedRequest) {
    const before = this.limiter.stats().map(({ outcomes }) => ({ ...outcomes }));
    const verdict = this.#decided(request);
    if (verdict.decision.held !== null) this.held.push(verdict.decision.held);
    const after = this.limiter.stats().map(({ policy, outcomes }, i) => {
      const changed = Object.entries(outcomes).filter(([name, count]) => before[i]?.[name as "admitted"] !== count);
      return [policy.name, changed[0]?.[0] ?? null];
    });
    return {
      ...{ status: verdict.localReply?.status ?? null, reason: verdict.localReply?.reason ?? null },
      ...{ policy: verdict.decision.policy.name, client: verdict.parsed.client, route: verdict.parsed.route },
      ...{ auth: verdict.auth, outcomes: after, blockedBy: verdict.blockedBy?.id ?? null },
      ...{ isVerified: verdict.identity !== null, subject: verdict.identity?.subject ?? null },
      resetMs: Math.ceil(verdict.decision.resetMs + this.clock.wallOffsetMs),
    };
  }
}

/** What the admin API answers about the clients of a stage. */
export function controlOf(
  { clients, clock, rules: inForce }: Pick<Stage, "clients" | "clock" | "rules">,
  changes: Partial<Parameters<typeof createClientControl>[0]> = {},
) {
  return createClientControl({
    ...{ clients, inForce, wallMs: clock.wallMs, listedTokens: () => null },
    settings: () => testSettings("http://127.0.0.1:9", {}),
    recent: { refused: () => ({ keys: [], sinceMs: clock.wallMs() }) },
    rules: { find: () => null },
    forgive: async () => null,
    isShared: () => false,
    ...changes,
  });
}
