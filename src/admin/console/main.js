// Starts the page.
import { Api } from "./api.js";
import { App } from "./app.js";
import { html, render } from "./html.js";

render(html`<${App} api=${new Api()} />`, document.querySelector("#app"));
