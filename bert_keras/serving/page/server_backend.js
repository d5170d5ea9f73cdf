// The backend of the page in the server: it sends requests. The server gives this file the name backend.js.

const ROOT = new URL("../", import.meta.url);
const TOKEN = "bert-keras-token";
// The statuses of requests whose texts are not valid, too long or too many.
const OF_TEXTS = [413, 422, 504];

/** The best number of items in a request, if there are many. */
export const batchSize = 32;

/** Keeps the bearer token for the requests of this tab. */
export function setToken(token) {
  sessionStorage.setItem(TOKEN, token);
}

/** Returns the models of the server. */
export async function models() {
  return (await send("models")).models;
}

/** Returns the answer to each item. If the texts are the reason for an error, it has `isOfTexts`. */
export async function answers(model, items, options) {
  const { url, body } = requestOf(model, items, options);
  return (await send(url, body)).answers;
}

/** Returns the sequences of tokens that the model reads for an item. */
export async function tokens(model, item) {
  return (await send("v1/tokens", { model: model.name, task: model.task, item })).sequences;
}

/** Returns the tokens of the first sequence, and the attention of a layer by head, token and token. */
export async function attention(model, item, layer) {
  return send("v1/attention", { model: model.name, task: model.task, item, layer });
}

/** Returns the request for the answers; `headers` are those that a client has to add. */
export function requestOf(model, items, options) {
  const url = new URL(model.route.slice(1), ROOT).href;
  const headers = sessionStorage.getItem(TOKEN) ? ["Authorization: Bearer $TOKEN"] : [];
  return { url, headers, body: { model: model.name, items, ...options } };
}

async function send(path, body) {
  const token = sessionStorage.getItem(TOKEN);
  const headers = { ...(body && { "Content-Type": "application/json" }), ...(token && { Authorization: `Bearer ${token}` }) };
  let response, content;
  try {
    response = await fetch(new URL(path, ROOT), { method: body ? "POST" : "GET", headers, body: body && JSON.stringify(body) });
  } catch {
    throw new Error("The server does not answer. Check that it is running, then try again.");
  }
  try {
    content = await response.json();
  } catch {
    throw new Error(`The server answered with the status ${response.status}, and not in JSON.`);
  }
  if (response.ok) return content;
  const error = new Error(sentence(content.error ?? `the server answered with the status ${response.status}`));
  error.needsToken = response.status === 401;
  error.isOfTexts = OF_TEXTS.includes(response.status);
  throw error;
}

const sentence = (reason) => `${reason[0].toUpperCase()}${reason.slice(1)}.`.replace(/[.]{2}$/, ".");
