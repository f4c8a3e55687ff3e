// Asks for a token of the admin API. It goes to the API's caller alone: it is not stored, and no form is sent.

import { html, useEffect, useRef, useState } from "./html.js";
import { typed } from "./parts.js";

export function SignIn({ message, onToken }) {
  const [token, setToken] = useState("");
  const field = useRef(null);
  useEffect(() => field.current.focus(), []);
  const onSubmit = (event) => {
    event.preventDefault();
    if (token.trim() !== "") onToken(token.trim());
  };
  return html`
    <main class="sign-in">
      <${Name} />
      <${Exposed} />
      <form class="panel" onSubmit=${onSubmit}>
        <label for="token">Token of the admin API</label>
        <input id="token" type="password" ...${typed} ref=${field} value=${token}
          aria-describedby="token-help" onInput=${({ target }) => setToken(target.value)} />
        <p id="token-help" class="muted">
          One of <code>admin.tokensFile</code>; <code>headgate token --admin read --name you</code> makes one. It is kept
          until this page is closed or reloaded.
        </p>
        <p class="failure" role="alert">${message}</p>
        <button type="submit" class="main">Sign in</button>
      </form>
    </main>`;
}

/** As in index.html. */
export function Name() {
  return html`<h1><span class="logo"></span>Headgate</h1>`;
}

/** Says so where the token goes over a network in plain text. */
export function Exposed() {
  const isLoopback = /^(?:localhost|127\.[\d.]+|\[::1\])$/.test(location.hostname);
  if (location.protocol !== "http:" || isLoopback) return null;
  return html`<p class="warning">
    This page is not encrypted: whoever is on the way to the gateway can read the token. Set <code>admin.tls</code>, or use
    the Unix socket.
  </p>`;
}
