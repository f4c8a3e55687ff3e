// An address given by the caller, checked before any request. The complaint names the option and never quotes the
// value: it may hold a password, which is also why an address with one is refused (fetch refuses it too, and quotes
// it).

export function httpUrl(option: string, address: string | URL): URL {
  const url = URL.parse(address);
  if (url === null || !/^https?:$/.test(url.protocol)) {
    throw new TypeError(`${option} must be an absolute http or https URL`);
  }
  if (url.username !== "" || url.password !== "") {
    throw new TypeError(`${option} must not hold a user name or a password`);
  }
  return url;
}
