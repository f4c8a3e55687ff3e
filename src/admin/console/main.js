// Starts the page: takes the token that `headgate console` has put into the address, and signs in.
import { Api } from "./api.js";
import { App } from "./app.js";
import { html, render } from "./html.js";

/** Removes the token from the address at once, before anything is asked. */
function takeToken() {
  const found = /^#token=(.+)$/.exec(location.hash);
  if (found === null) return null;
  history.replaceState(null, "", location.pathname);
  return found[1];
}

const api = new Api(takeToken());
render(html`<${App} api=${api} takeToken=${takeToken} />`, document.querySelector("#app"));
