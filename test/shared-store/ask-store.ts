// Commands to a store while clients are busy: redis-cli would block them until it has ended.
import { RedisClient } from "../support/redis-client.ts";

export async function askStore({ port }: { readonly port: number }, ...args: readonly (string | number)[]) {
  const client = await RedisClient.open(port);
  try {
    return await client.ask(...args);
  } finally {
    client.close();
  }
}
