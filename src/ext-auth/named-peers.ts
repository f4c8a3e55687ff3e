// The clients that ingresses name, as peers. A peer is kept, because the next request of the same client mostly comes soon,
// on any connection of the ingress. The table has a fixed size, and an address replaces another one in its slot: a client
// that provokes this only has its address parsed again. A Map would make a unique copy of each text that it is asked for,
// which costs more than parsing the address.
import { type ClientAddressRules, type Peer, parseForwardedAddress, peerAt } from "../core/client-address.ts";

/** A power of two. A slot takes about 400 bytes once it is used. */
const slotCount = 8192;
/** That of the longest IPv6 address without a zone. */
const maxLength = 45;

export class NamedPeers {
  readonly #known: (Peer | undefined)[] = Array.from({ length: slotCount });

  /** Returns null if the text is no IP address, with a port or without. */
  find(text: string, rules: ClientAddressRules): Peer | null {
    if (text.length > maxLength) return read(text, rules);
    const slot = slotOf(text);
    const known = this.#known[slot];
    if (known !== undefined && known.text === text && known.rules === rules) return known;
    const peer = read(text, rules);
    // In another spelling it would not be found.
    if (peer?.text === text) this.#known[slot] = peer;
    return peer;
  }
}

function read(text: string, rules: ClientAddressRules): Peer | null {
  const address = parseForwardedAddress(text);
  return address === undefined ? null : peerAt(address, rules);
}

function slotOf(text: string): number {
  let hash = 0;
  for (let i = 0; i < text.length; i += 1) hash = (Math.imul(hash, 31) + text.charCodeAt(i)) | 0;
  return (hash ^ (hash >>> 13)) & (slotCount - 1);
}
