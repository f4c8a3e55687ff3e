// Checks a URL of the caller before any request. The error names the option and does not quote the value, which may
// contain a password. A URL with a password is refused, as in fetch, whose error quotes it.

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
