// What the page says for each task. `bert_keras/tasks` has the form of each, and the model brings it as `page`: title,
// purpose, button, fields (`isList`: a list, one per line; `isItems`: one item per line), options and examples.
// Classifiers have no examples there: their training data decides what fits, so the run of a model stores examples.

// Task -> a function that returns what an answer adds to the row of a table, by column, if that is not `plainValues`.
const CELLS = {
  classification: ({ label, probabilities }) => ({ label, probability: probabilities[label] }),
  multi_label: ({ labels, probabilities }) => ({
    labels: labels.join(";"),
    probabilities: labels.map((label) => probabilities[label]).join(";"),
  }),
};

const MOST_LABELS = 12;
// Of the name of an example.
const MOST_CHARS = 40;
// Types of entities in the examples, as common data sets name them.
const TYPES = new Set(["PER", "PERSON", "LOC", "GPE", "ORG", "MISC"]);

/** Returns the form of the task of a model; `cells`: see `CELLS`, null if the task cannot answer the rows of a table. */
export function entryOf(model) {
  const { hasTable = true, ...entry } = model.page ?? {};
  const cells = CELLS[model.task] ?? ((answer) => plainValues(model, answer));
  return { ...entry, cells: hasTable ? cells : null };
}

/** Returns the numbers and words of an answer, without the texts of its item and what the server adds. */
export function plainValues({ fields }, answer) {
  const isPlain = ([name, value]) => ["number", "string"].includes(typeof value) && ![...fields, "num_tokens"].includes(name);
  return Object.fromEntries(Object.entries(answer).filter(isPlain));
}

/** Returns the examples from the data of a model, or else those of the task that fit it: texts by field, and a name. */
export function examplesOf(model) {
  const { task, labels, fields, examples } = model;
  if (examples?.length) return examples.map((texts) => ({ name: beginningOf(texts[fields[0]] ?? ""), ...texts }));
  if (task === "token_classification" && !labels?.every((label) => TYPES.has(label.toUpperCase()))) return [];
  return entryOf(model).examples ?? [];
}

/** Returns the first words of a text, in at most 40 characters. */
export function beginningOf(text) {
  const chars = [...text.trim().replace(/\s+/g, " ")];
  if (chars.length <= MOST_CHARS) return chars.join("");
  const beginning = chars.slice(0, MOST_CHARS).join("");
  return `${beginning.replace(/(.) \S*$/, "$1")}…`;
}

/** Returns a sentence with the labels of a model, and the space before it. */
export function labelsOf({ labels }) {
  if (!labels?.length) return "";
  const more = labels.length > MOST_LABELS ? ` and ${labels.length - MOST_LABELS} more` : "";
  return ` Labels: ${labels.slice(0, MOST_LABELS).join(", ")}${more}.`;
}
