// The page: chooses a model, sends what the form has, and shows the answer and what explains it.

import * as backend from "./backend.js";
import { at, errorView, make } from "./dom.js";
import { explain } from "./explanations.js";
import { tableView } from "./table.js";
import { entryOf, examplesOf, labelsOf } from "./tasks.js";
import { VIEWS, anyView, cutsOf } from "./views.js";

// Tables and lists with more sentences are too large to read.
const MOST_ITEMS = 40;
// Programs cut longer addresses.
const MOST_IN_ADDRESS = 2000;

let models = [];
let model = null;
// The number of the newest request; an older one does not change the page.
let newest = 0;
// The view that answers files; null: the model's task has none.
let table = null;

async function open() {
  at("unopened")?.remove();
  at("error").textContent = "";
  try {
    models = await backend.models();
  } catch (error) {
    return report(error);
  }
  if (!models.length) return report(new Error("This server has no model that the page can show."));
  const nameOf = (each) => `${each.name}: ${entryOf(each).title}`;
  at("model").replaceChildren(...models.map((each, index) => make("option", { value: index }, nameOf(each))));
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

/** Shows a model with values for its form. If they have a text, answers it. */
function show(number, values) {
  at("model").value = number;
  choose();
  for (const [name, value] of values) {
    const control = at(`field-${name}`) ?? at(`option-${name}`);
    if (control) control.value = value;
  }
  const second = new Map(values).get("compare");
  const hasSecond = !second || at("option-compare")?.value === second;
  if (!hasSecond && at("option-compare")) at("option-compare").value = "";
  if (values.some(([name]) => model.fields.includes(name))) run();
  if (!hasSecond) at("error").textContent = `There is no other model ${second} for these texts.`;
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
  const task = entryOf(model);
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
  const others = othersOf(model);
  at("options").replaceChildren(
    ...options.map(([name, option]) => optionOf(name, option)),
    ...(others.length ? [comparisonOf(others)] : []),
  );
  at("examples").replaceChildren(...examplesOf(model).map(exampleOf));
  table = task.cells ? tableView(model, backend) : null;
  at("table").hidden = !table;
  at("table").querySelector("div").replaceChildren(table?.element ?? "");
  clear();
  at("status").textContent = "";
  at("task").hidden = false;
}

/** Returns the other models that can answer the same texts. */
function othersOf({ name, task, fields }) {
  return models.filter((other) => other.name !== name && other.task === task && String(other.fields) === String(fields));
}

/** Returns the list with which the reader chooses a second model. It is a field of the form, so the address holds it. */
function comparisonOf(others) {
  const options = others.map(({ name }) => make("option", { value: name }, name));
  const change = () => at("answer").hidden || run();
  const none = make("option", { value: "" }, "no other model");
  const select = make("select", { id: "option-compare", name: "compare", onchange: change }, none, options);
  return make("label", { className: "option" }, "Compare with ", select);
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
  explain(null);
  at("error").textContent = "";
  at("answer").hidden = true;
  setBusy(false);
}

/** Returns the items and options in the form. */
function read() {
  const { fields, options = {} } = entryOf(model);
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
    const second = othersOf(model).filter(({ name }) => name === at("option-compare").value);
    const request = { models: [model, ...second], ...read() };
    const elements = await (second.length ? comparedAnswers(request) : answerOf(model, request));
    if (mine !== newest) return;
    at("answer").replaceChildren(...elements);
    at("answer").hidden = false;
    at("status").textContent = `Answered in ${Math.round(performance.now() - started)} ms.`;
    explain(request);
  } catch (error) {
    if (mine !== newest) return;
    at("status").textContent = "";
    report(error);
  }
  setBusy(false);
}

/** Returns the elements with a model's answer to a request. */
async function answerOf(model, { items, options }) {
  const answers = await backend.answers(model, items, options);
  const tokens = (item) => backend.tokens(model, item);
  const elements = await (VIEWS[model.task] ?? anyView)({ model, items, options, answers, fill, tokens });
  return [...cutsOf(model, answers), ...elements];
}

/** Returns the answers of two models next to each other. If the second has none, its place has the reason. */
async function comparedAnswers(request) {
  const [first, second] = request.models;
  const answers = [answerOf(first, request), answerOf(second, request).catch((error) => [errorView(error)])];
  const columns = (await Promise.all(answers)).map((elements, place) =>
    make("section", {}, make("h2", { dir: "auto" }, request.models[place].name), ...elements),
  );
  return [make("div", { className: "columns compared" }, columns)];
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
const hasFile = (event) => table && event.dataTransfer.types.includes("Files");
document.addEventListener("dragover", (event) => hasFile(event) && event.preventDefault());
document.addEventListener("drop", (event) => {
  if (!hasFile(event)) return;
  event.preventDefault();
  at("table").open = true;
  at("table").scrollIntoView({ block: "nearest" });
  table.open(event.dataTransfer.files);
});
open();
