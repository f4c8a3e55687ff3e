// Runs in a page of another origin, which tries what a browser lets it. Each resolves with what it could read.
globalThis.otherOrigins = { ask, load, frame };

const rule = JSON.stringify({ client: "203.0.113.7", action: "block", for: "1h" });
const reads = ["/api/status", "/api/rules", "/api/config", "/api/clients", "/metrics", "/console/", "/console/main.js"];
const writes = [
  ["PUT", "/api/rules/foreign", rule],
  ["POST", "/api/reload", "{}"],
  ["POST", "/api/drain", "{}"],
  ["DELETE", "/api/clients/client%3A203.0.113.7"],
];

/** By scripts: `fetch` in all its modes, beacons, streams and sockets. `token`: a right one. */
async function ask(base, token) {
  const read = [];
  const attempt = async (method, path, body, options) => {
    const answer = await fetch(base + path, { method, body, ...options }).catch(() => null);
    if (answer !== null && (answer.type !== "opaque" || (await answer.text()) !== "")) read.push(`${method} ${path}`);
  };
  const calls = [...reads.map((path) => ["GET", path]), ...writes];
  for (const [method, path, body] of calls) {
    for (const credentials of ["omit", "include"]) {
      for (const type of ["application/json", "text/plain"]) {
        const headers = body === undefined ? {} : { "content-type": type };
        await attempt(method, path, body, { credentials, headers });
        await attempt(method, path, body, { credentials, headers: { ...headers, authorization: `Bearer ${token}` } });
      }
      // Methods and fields are then bounded, but the browser asks nobody before.
      const simple = method === "GET" ? "GET" : "POST";
      await attempt(simple, path, body, { credentials, mode: "no-cors" });
      if (body !== undefined) navigator.sendBeacon(base + path, body);
    }
  }
  const events = () => new EventSource(`${base}/api/events`, { withCredentials: true });
  const socket = () => new WebSocket(`${base.replace("http", "ws")}/api/events`);
  for (const open of [events, socket]) {
    const one = open();
    await new Promise((resolve) => {
      one.onopen = () => resolve(read.push(one.url));
      one.onerror = resolve;
    });
    one.close();
  }
  return read;
}

/** By elements: scripts, styles, pictures, and forms that are sent into a frame. */
async function load(base) {
  const loaded = [];
  for (const path of reads) {
    for (const [tag, key] of [
      ["script", "src"],
      ["link", "href"],
      ["img", "src"],
    ]) {
      const element = document.createElement(tag);
      if (tag === "link") element.rel = "stylesheet";
      await new Promise((resolve) => {
        element.onload = () => resolve(loaded.push(`${tag} ${path}`));
        element.onerror = resolve;
        element[key] = base + path;
        document.body.append(element);
      });
    }
    if (path.endsWith(".js"))
      await import(base + path).then(
        () => loaded.push(`import ${path}`),
        () => {},
      );
  }
  for (const [, path, body = ""] of writes) {
    const form = document.createElement("form");
    Object.assign(form, { method: "post", enctype: "text/plain", action: base + path, target: "frame" });
    form.append(Object.assign(document.createElement("input"), { name: body, value: "" }));
    const frame = document.createElement("iframe");
    frame.name = "frame";
    document.body.append(form, frame);
    form.submit();
    await new Promise((resolve) => {
      frame.onload = resolve;
    });
    frame.remove();
  }
  return loaded;
}

/** Resolves when every kind of frame has loaded what the browser lets it. */
async function frame(address) {
  for (const [tag, key] of [
    ["iframe", "src"],
    ["object", "data"],
    ["embed", "src"],
  ]) {
    const element = document.createElement(tag);
    element[key] = address;
    const done = new Promise((resolve) => {
      element.onload = resolve;
      element.onerror = resolve;
    });
    document.body.append(element);
    await done;
  }
}
