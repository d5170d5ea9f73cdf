// The page: chooses a model, sends what the form has, and shows the answer and what explains it.

import * as backend from "./backend.js";
import { attentionView } from "./attention.js";
import { make } from "./dom.js";
import { curlOf, requestView } from "./request.js";
import { TASKS, examplesOf, labelsOf } from "./tasks.js";
import { tokensView } from "./tokens.js";
import { VIEWS } from "./views.js";

// Tables and lists with more sentences are too large to read.
const MOST_ITEMS = 40;
// Programs cut longer addresses.
const MOST_IN_ADDRESS = 2000;

const at = (id) => document.getElementById(id);

let models = [];
let model = null;
// The number of the newest request; an older one does not change the page.
let newest = 0;
// The items and options of the answer on the screen.
let shown = null;

async function open() {
  at("unopened")?.remove();
  at("error").textContent = "";
  try {
    models = await backend.models();
  } catch (error) {
    return report(error);
  }
  if (!models.length) return report(new Error("This server has no model that the page can show."));
  const name = ({ name, task }) => `${name}: ${TASKS[task].title}`;
  at("model").replaceChildren(...models.map((each, index) => make("option", { value: index }, name(each))));
  at("chooser").hidden = models.length === 1;
  const { number, values } = readAddress();
  if (number >= 0) return show(number, values);
  at("model").value = 0;
  choose();
}

/** Returns the end of the address: #NAME/TASK, the number of this model, -1 for none, and the values for its form. */
function readAddress() {
  const [place] = location.hash.split("?", 1);
  const values = [...new URLSearchParams(location.hash.slice(place.length))];
  return { place, number: models.findIndex((each) => hashOf(each) === place), values };
}

/** Shows a model. If there are values for its form, answers them. */
function show(number, values) {
  at("model").value = number;
  choose();
  for (const [name, value] of values) {
    const control = at(`field-${name}`) ?? at(`option-${name}`);
    if (control) control.value = value;
  }
  if (values.length) run();
}

/** Shows the model and the texts of a changed address, such as one from the history or from a link. */
function follow() {
  const { place, number, values } = readAddress();
  if (number >= 0) {
    if (values.length || number !== Number(at("model").value)) show(number, values);
  } else if (model) {
    history.replaceState(null, "", hashOf(model));
    at("error").textContent = `There is no model at ${place}.`;
  }
}

/** Puts what the form has into the address, so that the address can be given to others; only the model if it is long. */
function writeAddress() {
  const values = [...new FormData(at("form"))].filter(([, value]) => value.trim());
  const whole = [hashOf(model), new URLSearchParams(values)].filter(String).join("?");
  history.replaceState(null, "", whole.length <= MOST_IN_ADDRESS ? whole : hashOf(model));
}

/** Shows an error next to the button, or asks for the token. */
function report(error) {
  at("error").textContent = error.message;
  if (error.needsToken) {
    at("token-form").hidden = false;
    at("token").focus();
  }
}

/** Returns the end of the address that opens the page with a model. */
const hashOf = ({ name, task }) => `#${encodeURIComponent(name)}/${task}`;

/** Shows the form of the chosen model. */
function choose() {
  model = models[at("model").value];
  history.replaceState(null, "", hashOf(model));
  const task = TASKS[model.task];
  document.title = `${task.title} · ${model.name}`;
  at("title").textContent = task.title;
  at("purpose").textContent = `${task.purpose} Model: ${model.name}.${labelsOf(model)}`;
  at("run").textContent = task.button;
  at("run").title = "Ctrl+Enter";
  const labelOf = (name) => task.fields[name].label + (model.may_lack?.includes(name) ? " (may be empty)" : "");
  at("fields").replaceChildren(
    ...model.fields.map((name) => fieldOf(name, { ...task.fields[name], label: labelOf(name) })),
  );
  const options = Object.entries(task.options ?? {}).filter(([name]) => model.options.includes(name));
  at("options").replaceChildren(...options.map(([name, option]) => optionOf(name, option)));
  at("examples").replaceChildren(...examplesOf(model).map(exampleOf));
  clear();
  at("status").textContent = "";
  at("task").hidden = false;
}

function fieldOf(name, { label, rows }) {
  const area = make("textarea", { id: `field-${name}`, name, rows, dir: "auto", spellcheck: false });
  area.setAttribute("aria-keyshortcuts", "Control+Enter");
  area.style.setProperty("--rows", rows);
  return make("div", { className: "field" }, make("label", { htmlFor: area.id }, label), area);
}

function optionOf(name, { label, isWords, ...properties }) {
  return make("label", { className: "option" }, `${label} `, make("input", { id: `option-${name}`, name, ...properties }));
}

function exampleOf(example) {
  const use = () => {
    for (const name of model.fields) at(`field-${name}`).value = [example[name] ?? []].flat().join("\n");
    run();
  };
  return make("button", { type: "button", className: "quiet", dir: "auto", onclick: use }, example.name);
}

/** Removes the answer; an answer that is on its way is then too old. */
function clear() {
  newest += 1;
  shown = null;
  at("error").textContent = "";
  at("answer").hidden = at("more").hidden = true;
  setBusy(false);
}

/** Returns the items and options in the form. */
function read() {
  const { fields, options = {} } = TASKS[model.task];
  const item = {};
  let items = [item];
  for (const name of model.fields) {
    const text = at(`field-${name}`).value;
    const lines = text.split("\n").filter((line) => line.trim());
    item[name] = fields[name].isList ? lines : text;
    if (fields[name].isItems && lines.length) items = lines.map((line) => ({ [name]: line }));
  }
  if (items.length > MOST_ITEMS) throw new Error(`There are ${items.length} sentences; give at most ${MOST_ITEMS}.`);
  const given = {};
  for (const [name, { type, isWords }] of Object.entries(options)) {
    const value = at(`option-${name}`)?.value.trim();
    if (value) given[name] = isWords ? value.split(/[\s,]+/).filter(Boolean) : type === "number" ? Number(value) : value;
  }
  return { items, options: given };
}

async function run() {
  clear();
  const mine = newest;
  const started = performance.now();
  setBusy(true);
  writeAddress();
  try {
    const request = { model, ...read() };
    const answers = await backend.answers(model, request.items, request.options);
    if (mine !== newest) return;
    const tokens = (item) => backend.tokens(request.model, item);
    const elements = await VIEWS[model.task]({ ...request, answers, fill, tokens });
    if (mine !== newest) return;
    shown = request;
    at("answer").replaceChildren(...cutsOf(request.model, answers), ...elements);
    at("answer").hidden = at("more").hidden = false;
    at("status").textContent = `Answered in ${Math.round(performance.now() - started)} ms.`;
    explain();
  } catch (error) {
    if (mine !== newest) return;
    at("status").textContent = "";
    report(error);
  }
  setBusy(false);
}

/** Returns a warning if the model ignored a part of a text. */
function cutsOf({ max_seq_length: longest }, answers) {
  const cut = answers.filter((answer) => answer.is_cut);
  if (!cut.length) return [];
  const which = answers.length > 1 ? `${cut.length} of ${answers.length} texts were` : "A text was";
  const most = Math.max(...cut.map((answer) => answer.num_tokens));
  const sentence = `${which} cut: the input has ${most} tokens, and the model reads at most ${longest} at a time.`;
  return [make("p", { className: "error", role: "note" }, sentence)];
}

function setBusy(isBusy) {
  at("form").setAttribute("aria-busy", String(isBusy));
  document.querySelector(".spinner").hidden = !isBusy;
  if (isBusy) at("status").textContent = "Working…";
}

/** Puts a text into the form. If it has another mask, asks for that one. */
function fill(name, text) {
  at(`field-${name}`).value = text;
  if (text.includes("[MASK]")) return run();
  at("status").textContent = "The word is in the text.";
  at(`field-${name}`).focus();
}

// Each part is made when it is open and there is a new answer.
const PARTS = {
  tokens: async ({ model, items }) => tokensOfItems(model, items),
  attention: async ({ model, items: [item] }) =>
    attentionView(model.num_layers, (layer) => backend.attention(model, item, layer)),
  request: async ({ model, items, options }) => requestView(curlOf(backend.requestOf(model, items, options))),
};

async function tokensOfItems(model, items) {
  const views = [];
  for (const item of items.slice(0, 5)) views.push(tokensView(await backend.tokens(model, item), item));
  return make("div", { className: "stack" }, views);
}

/** Makes the parts below the answer that are open. */
function explain() {
  at("attention").hidden = !shown.model.num_layers;
  at("request").hidden = !backend.requestOf(shown.model, shown.items, shown.options);
  for (const name of Object.keys(PARTS)) if (!at(name).hidden && at(name).open) explainPart(name);
}

async function explainPart(name) {
  const request = shown;
  const place = at(name).querySelector("div");
  if (!request || place.shown === request) return;
  place.replaceChildren(make("p", { className: "muted" }, "Working…"));
  let view;
  try {
    view = await PARTS[name](request);
  } catch (error) {
    view = make("p", { className: "error", role: "alert" }, error.message);
  }
  if (request !== shown) return;
  place.shown = request;
  place.replaceChildren(view);
}

window.addEventListener("hashchange", follow);
at("model").addEventListener("change", choose);
at("form").addEventListener("submit", (event) => {
  event.preventDefault();
  run();
});
at("form").addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
  event.preventDefault();
  run();
});
at("token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  backend.setToken(at("token").value);
  at("token-form").hidden = true;
  open();
});
for (const name of Object.keys(PARTS)) at(name).addEventListener("toggle", () => at(name).open && explainPart(name));
open();
