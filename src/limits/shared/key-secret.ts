// The secret that hashes keys, which lives in the store: gateways that hash with different ones would share nothing.
import type { ItemAnswer, SecretItem } from "./script-call.ts";

export class KeySecret {
  readonly #proposed: Uint8Array;
  readonly #onKnown: (secret: Uint8Array) => void;
  #isKnown = false;

  /** `proposed`: used if the store has none. `onKnown` is called with the one that all gateways use. */
  constructor(proposed: Uint8Array, onKnown: (secret: Uint8Array) => void) {
    this.#proposed = proposed;
    this.#onKnown = onKnown;
  }

  get isKnown(): boolean {
    return this.#isKnown;
  }

  item(key: string): SecretItem {
    return { item: "secret", key, proposed: Buffer.from(this.#proposed).toString("hex") };
  }

  /** Returns whether it is known now. */
  answered(answer: ItemAnswer | undefined): boolean {
    if (answer?.item !== "secret") return false;
    this.#isKnown = true;
    this.#onKnown(Uint8Array.from(Buffer.from(answer.value, "hex")));
    return true;
  }
}
