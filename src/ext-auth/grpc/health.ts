// grpc.health.v1.Health: whether calls should be sent here. It reports what /readyz reports, so callers learn of a drain before
// it begins; watchers are told of each change.
import { type GrpcCall, grpcCodes, statuses } from "./call.ts";
import { bytesTag, numberField, ProtobufReader } from "./protobuf.ts";

const servingStatus = { serving: 1, notServing: 2, serviceUnknown: 3 } as const;

/** Each watcher holds a stream open for as long as it likes. */
const maxWatchers = 64;

export class HealthService {
  readonly #services: ReadonlySet<string>;
  #isServing = false;
  readonly #watchers = new Map<GrpcCall, string>();

  /** The service "" stands for the server as a whole. */
  constructor(services: readonly string[]) {
    this.#services = new Set(["", ...services]);
  }

  setServing(isServing: boolean): void {
    if (this.#isServing === isServing) return;
    this.#isServing = isServing;
    for (const [call, service] of this.#watchers) this.#tell(call, service);
  }

  /** Ends the streams of watchers, which would keep their connections open. */
  close(): void {
    for (const call of this.#watchers.keys()) call.fail(failures.ending);
  }

  readonly check = (message: Buffer, call: GrpcCall): void => {
    const service = readService(message);
    if (service === undefined) call.fail(statuses.malformed);
    else if (!this.#services.has(service)) call.fail(failures.unknownService);
    else call.reply(this.#status(service));
  };

  readonly watch = (message: Buffer, call: GrpcCall): void => {
    const service = readService(message);
    if (service === undefined) call.fail(statuses.malformed);
    else if (this.#watchers.size >= maxWatchers) call.fail(failures.tooManyWatchers);
    else {
      this.#watchers.set(call, service);
      call.onClose(() => this.#watchers.delete(call));
      this.#tell(call, service);
    }
  };

  #tell(call: GrpcCall, service: string): void {
    call.send(this.#status(service));
  }

  #status(service: string): string {
    if (!this.#services.has(service)) return numberField(1, servingStatus.serviceUnknown);
    return numberField(1, this.#isServing ? servingStatus.serving : servingStatus.notServing);
  }
}

function readService(message: Buffer): string | undefined {
  const reader = new ProtobufReader(message);
  let service = "";
  for (let tag = reader.next(); tag !== 0; tag = reader.next()) {
    if (tag === bytesTag(1)) service = reader.latin1();
    else reader.skip();
  }
  return reader.isBroken ? undefined : service;
}

const failures = {
  unknownService: { code: grpcCodes.notFound, message: "there is no such service here" },
  tooManyWatchers: { code: grpcCodes.resourceExhausted, message: "too many calls watch already" },
  ending: { code: grpcCodes.unavailable, message: "the server is ending" },
} as const;
