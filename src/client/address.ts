// Checks a URL that the caller gives, before any request. The error names the option and never quotes the value, which may
// hold a password. A URL with a password is refused; fetch refuses it too, but quotes it.

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
