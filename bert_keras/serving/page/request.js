// The curl command of the request on the screen.

import { make } from "./dom.js";

/** Returns a text as one word of a shell. */
const quoted = (text) => `'${text.replaceAll("'", `'\\''`)}'`;

/** Returns the command for a request { url, headers, body }. Headers may have variables of the shell. */
export function curlOf({ url, headers, body }) {
  const told = headers.map((header) => ` -H "${header}"`).join("");
  return `curl -s ${quoted(url)}${told} -d ${quoted(JSON.stringify(body))}`;
}

/** Returns the view of a command, with a button that copies it. */
export function requestView(command) {
  const status = make("span", { role: "status", className: "muted" });
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(command);
      status.textContent = "Copied.";
    } catch {
      getSelection().selectAllChildren(code);
      status.textContent = "Selected; copy it with the keyboard.";
    }
  };
  const code = make("code", {}, command);
  const button = make("button", { type: "button", className: "quiet", onclick: copy }, "Copy");
  return make("div", {}, make("pre", { tabIndex: 0, ariaLabel: "Command" }, code), make("p", {}, button, " ", status));
}
