// The view that answers each row of a CSV or TSV file. The file stays in the browser; the backend gets only its texts.

import { readTable, writeTable } from "./csv.js";
import { errorView, fillLater, make } from "./dom.js";
import { beginningOf, entryOf } from "./tasks.js";
import { cutsOf } from "./views.js";

const MOST_BYTES = 20e6;
// A longer cell is not the name of a column.
const MOST_CHARS_OF_A_NAME = 40;
// Names of lines in a message, and messages.
const MOST_LINES = 5;
// As in bert_keras/tasks/tables/column_names.py.
const TEXT_NAMES = [
  ...["text", "sentence", "sentence1", "text_a", "premise", "question", "question1", "review", "content", "body"],
  ...["message", "comment", "tweet", "document", "description"],
];
const PAIRS = [
  ...[["sentence1", "sentence2"], ["text_a", "text_b"], ["text", "text_pair"], ["premise", "hypothesis"]],
  ...[["question1", "question2"], ["question", "sentence"], ["sentence_1", "sentence_2"], ["text1", "text2"]],
  ...[["sentence_a", "sentence_b"], ["text_1", "text_2"]],
];

const withCommas = (number) => number.toLocaleString("en");
const rowsOf = (number) => (number === 1 ? "1 row" : `${withCommas(number)} rows`);

/** Returns the view of a model: `element`, and `open(files)`, which shows the first file of a FileList in it. */
export function tableView(model, backend) {
  const place = make("div");
  const show = ([file]) => file && fillLater(place, async () => formOf(model, backend, file.name, await read(file)));
  const input = make("input", {
    type: "file",
    accept: ".csv,.tsv,.txt",
    onclick: () => (input.value = ""), // so that the same file can be chosen again
    onchange: () => show(input.files),
  });
  const open = (files) => {
    input.files = files;
    show(files);
  };
  const label = make("label", { className: "drop" }, "Drop a CSV or TSV file on this page, or choose one: ", input);
  return { element: make("div", {}, label, place), open };
}

/** Returns the table of a file, and whether it begins with a byte order mark. */
async function read(file) {
  const wrong = (problem) => new Error(`${file.name} ${problem}`);
  if (file.size > MOST_BYTES) {
    const size = `${(file.size / 1e6).toFixed(1)} MB, but at most ${MOST_BYTES / 1e6} MB are possible here`;
    throw wrong(`has ${size}; split it, or use the program predict.py.`);
  }
  const bytes = new Uint8Array(await file.arrayBuffer());
  let text;
  try {
    text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    throw wrong("is not text in UTF-8; save it as CSV in UTF-8.");
  }
  const table = readTable(text, /\.(tsv|txt)$/i.test(file.name));
  if (!table.rows.length) throw wrong("has no rows; give a file with a text in each row.");
  return { ...table, hasMark: bytes[0] === 0xef && bytes[1] === 0xbb };
}

/** Returns the form for a table: its columns, the button, and the answers. */
function formOf(model, backend, name, table) {
  const [first, ...rest] = table.rows;
  const blank = table.numBlank ? `; ${table.numBlank} blank ${table.numBlank === 1 ? "line is" : "lines are"} left out` : "";
  const count = make("p", { className: "muted" });
  const columns = make("div", { className: "choices" });
  const result = make("div");
  const header = make("input", { type: "checkbox", checked: isHeader(first, rest), onchange: () => draw() });
  const draw = () => {
    const names = first.cells.map((cell, number) => (header.checked && cell.trim()) || `Column ${number + 1}`);
    columns.replaceChildren(...selectsOf(model, names));
    count.textContent = `${name} has ${rowsOf(header.checked ? rest.length : table.rows.length)}${blank}.`;
  };
  const run = async (event) => {
    event.preventDefault();
    const values = [...columns.querySelectorAll("select")].map(({ value }) => value);
    const rows = header.checked ? rest : table.rows;
    const names = header.checked ? first.cells : null;
    const problem = problemOf(name, rows, values);
    if (problem) return result.replaceChildren(errorView(new Error(problem)));
    const places = values.map(Number);
    button.disabled = true;
    await answerRows(model, backend, { ...table, name, names, rows, places }, result);
    button.disabled = false;
  };
  const button = make("button", { className: "run" }, "Answer all rows");
  draw();
  return make(
    "form",
    { onsubmit: run, noValidate: true },
    count,
    make("label", {}, header, " The first row has the names of the columns"),
    columns,
    make("p", {}, button),
    result,
  );
}

/** Returns a sentence if the chosen columns of a file cannot be answered. */
function problemOf(name, rows, values) {
  if (!rows.length) return `${name} has names of columns and no other row; give a file with a text in each row.`;
  if (values.includes("")) return "Choose the column with the text.";
  return new Set(values).size < values.length ? "Choose another column for each text." : "";
}

/** Returns whether the first row looks like names: short, and none is also a cell of its column. */
function isHeader(first, rest) {
  const isName = (cell, number) => cell.length <= MOST_CHARS_OF_A_NAME && !rest.some(({ cells }) => cells[number] === cell);
  return first.cells.every((cell, number) => !cell || isName(cell, number));
}

/** Returns a labelled list of columns for each field of the model. */
function selectsOf(model, names) {
  const guesses = guessedColumns(names);
  return model.fields.map((field, place) => {
    const mayLack = model.may_lack?.includes(field);
    const none = make("option", { value: mayLack ? "-1" : "" }, mayLack ? "no column" : "choose a column");
    const options = names.map((name, number) => make("option", { value: number }, beginningOf(name)));
    const select = make("select", { dir: "auto" }, none, options);
    select.selectedIndex = 1 + (guesses[place] ?? -1);
    return make("label", { className: "option" }, `${entryOf(model).fields[field].label} is in the column `, select);
  });
}

/** Returns the numbers of the columns with the first and the second text, if their names are usual ones. */
export function guessedColumns(names) {
  const folded = names.map((name) => name.toLowerCase().replace(/[-_\s]+/g, " ").trim().replaceAll(" ", "_"));
  const texts = folded.filter((name) => TEXT_NAMES.includes(name));
  const pair = PAIRS.find((both) => both.every((name) => folded.includes(name)) && texts.every((name) => both.includes(name)));
  if (pair) return pair.map((name) => folded.indexOf(name));
  if (names.length === 1) return [0];
  return texts.length === 1 ? [folded.indexOf(texts[0])] : [];
}

/** Answers the rows of a table, and shows how far it is; then shows the file with the answers. */
async function answerRows(model, backend, table, place) {
  const items = table.rows.map(({ cells }) =>
    Object.fromEntries(model.fields.map((field, number) => [field, cells[table.places[number]] ?? ""])),
  );
  // An answer or an Error for each row.
  const results = items.map((item) => (item[model.fields[0]].trim() ? null : new Error("The text is empty.")));
  const open = [...results.keys()].filter((number) => !results[number]);
  const started = performance.now();
  let end = "";
  let isCancelled = false;
  const bar = make("progress", { max: Math.max(open.length, 1), value: 0, ariaLabel: "Rows with an answer" });
  const count = make("span", { className: "muted" });
  const cancel = make("button", { type: "button", className: "quiet", onclick: () => (isCancelled = true) }, "Cancel");
  place.replaceChildren(make("p", { className: "actions" }, bar, count, cancel));
  let done = 0;
  try {
    for await (const answers of answersTo(model, backend, open.map((number) => items[number]))) {
      for (const answer of answers) results[open[done++]] = answer;
      bar.value = done;
      count.textContent = `${withCommas(done)} of ${rowsOf(open.length)}`;
      // The page may show another file or model by now.
      if (!place.isConnected) return;
      if (isCancelled) {
        end = "Cancelled.";
        break;
      }
    }
  } catch (error) {
    end = error.message;
  }
  for (const number of open.slice(done)) results[number] = new Error("The run ended before this row.");
  place.replaceChildren(...resultOf(model, table, results, end, performance.now() - started));
}

/** Yields lists with the answers to items, in their order; an Error for an item that has none. */
async function* answersTo(model, backend, items, size = backend.batchSize) {
  for (let start = 0; start < items.length; start += size) {
    const batch = items.slice(start, start + size);
    let answers;
    try {
      answers = await backend.answers(model, batch, {});
    } catch (error) {
      if (!error.isOfTexts) throw error;
      if (batch.length === 1) answers = [new Error(error.message.replace(/^The request\b/, "The text"))];
    }
    if (answers) yield answers;
    else yield* answersTo(model, backend, batch, Math.ceil(batch.length / 2));
  }
}

/** Returns what the reader sees at the end: the link of the file, and a sentence for each reason without an answer. */
function resultOf(model, table, results, end, milliseconds) {
  const answers = results.filter((result) => !(result instanceof Error));
  const took = `Answered ${withCommas(answers.length)} of ${rowsOf(results.length)} in ${(milliseconds / 1000).toFixed(1)} s.`;
  const elements = end ? [make("p", { className: "error", role: "alert" }, end)] : [];
  elements.push(make("p", { role: "status" }, took), ...cutsOf(model, answers), ...reasonsOf(table, results));
  if (answers.length) {
    const [, stem, ending] = /^(.*?)(\.[^.]*)?$/s.exec(table.name);
    const download = `${stem}_answers${ending ?? ".csv"}`;
    const file = new Blob([table.hasMark ? "\ufeff" : "", writeTable(rowsWith(model, table, results, answers[0]), table)]);
    elements.push(make("p", {}, make("a", { className: "run", href: URL.createObjectURL(file), download }, `Save ${download}`)));
  }
  return elements;
}

function reasonsOf(table, results) {
  const lines = new Map();
  results.forEach((result, number) => {
    if (!(result instanceof Error)) return;
    if (!lines.has(result.message)) lines.set(result.message, []);
    lines.get(result.message).push(table.rows[number].line);
  });
  const reasons = [...lines].slice(0, MOST_LINES).map(([message, of]) => {
    const more = of.length > MOST_LINES ? ` and ${withCommas(of.length - MOST_LINES)} more` : "";
    const where = `${of.length === 1 ? "line" : "lines"} ${of.slice(0, MOST_LINES).join(", ")}${more}`;
    return make("p", { className: "error" }, `${rowsOf(of.length)} without an answer (${where}): ${message}`);
  });
  const rest = lines.size > MOST_LINES ? [make("p", {}, "The column error of the file has the other reasons.")] : [];
  return [...reasons, ...rest];
}

/** Returns the rows of the file with the answers; a new column that has the name of an old one gets another name. */
function rowsWith(model, { rows, names }, results, anyAnswer) {
  const { cells } = entryOf(model);
  const added = Object.keys(cells(anyAnswer));
  const hasErrors = results.some((result) => result instanceof Error);
  const cellsOf = (result) => (result instanceof Error ? added.map(() => "") : Object.values(cells(result)).map(String));
  const errorOf = (result) => (hasErrors ? [result instanceof Error ? result.message : ""] : []);
  const body = rows.map((row, number) => [...row.cells, ...cellsOf(results[number]), ...errorOf(results[number])]);
  if (!names) return body;
  const taken = names.map((name) => name.trim().toLowerCase());
  const free = (name) => (taken.includes(name) ? free(`model_${name}`) : name);
  return [[...names, ...[...added, ...(hasErrors ? ["error"] : [])].map(free)], ...body];
}
