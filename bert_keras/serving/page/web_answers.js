/**
 * The answers in the browser: from the texts of an item to sequences of tokens, and from the scores of the network to the
 * JSON object that the HTTP route of the task answers.
 *
 * task.js is the file web.js of the task's Python. Its TASKS have, for each name, these members:
 * `encode(model, item, source, options)` checks an item and returns an object with `sequences`, each {tokens, segments}; a
 * token is {id, start, end, text}, and `text` names its field (null for [CLS] and [SEP]). If the model does not read all
 * tokens, `isCut` is true.
 * `answer(model, item, encoded, outputs, options)` takes the outputs of the network for each sequence.
 * `options(settings)` returns the defaults of the options, and `check(model, options)` checks those that only it has.
 * Some tasks have others: `scores(model, outputs)`, whose change explains an answer; `labels(labels)`, those to show;
 * `open(tables)`, more members of the model; `hasMasks`, if [MASK] in a text is a token; `hasOdds`, if a threshold is any
 * number; and `readsPadding`, if each sequence is padded to the longest.
 */

import { TASKS } from "./task.js";
import { codePoints, textOf } from "./tokenizer.js";
import { checkLimit } from "./web_sequences.js";
import { masked, placesOfWords } from "./web_why.js";

const MASK = "[MASK]";

/** Returns the labels of a model to show; null without labels. */
export function labelsOf({ task, labels }) {
  return (labels && TASKS[task].labels?.(labels)) ?? labels ?? null;
}

/** Returns what the model of a task has besides its files, made of the tables of unicode.json. */
export function partsOf({ task }, tables) {
  return TASKS[task].open?.(tables) ?? {};
}

/** Returns the checked options of a request: those of the task, with their defaults. */
export function optionsOf(model, given) {
  const defaults = { ...TASKS[model.settings.task].options(model.settings) };
  for (const [name, value] of Object.entries(given ?? {})) {
    if (!(name in defaults)) {
      const listed = Object.keys(defaults).join(", ") || "none";
      throw new Error(`"${name}" is not a field of this request; its options are: ${listed}`);
    }
    if (value !== null && value !== undefined) defaults[name] = value;
  }
  checkTopK(model, defaults.top_k);
  checkThreshold(model, defaults.threshold);
  checkWhy(defaults.why);
  TASKS[model.settings.task].check?.(model, defaults);
  return defaults;
}

/** Returns the names of the options of a task. */
export function optionNames(settings) {
  return Object.keys(TASKS[settings.task].options(settings));
}

/** Checks an item and turns it into sequences of tokens; some tasks need the options of the request. */
export function encode(model, item, source, options = {}) {
  const fields = model.fields;
  const named = fields.map((field) => `"${field}"`).join(" and ");
  if (typeof item !== "object" || item === null || Array.isArray(item)) {
    throw new Error(`${source} is not an object, but one with ${named} is needed`);
  }
  const has = Object.keys(item);
  if (has.length !== fields.length || !fields.every((field) => has.includes(field))) {
    const found = has.map((name) => `"${name}"`).join(", ") || "nothing";
    throw new Error(`${source} has ${found}, but the model ${model.name} needs ${named}`);
  }
  const encoded = TASKS[model.settings.task].encode(model, item, source, options);
  checkLimit(model, "max_sequences", encoded.sequences.length, source, "sequences of the model's length");
  if (options.why) {
    const number = placesOfWords(model, encoded.sequences).reduce((sum, [, rows]) => sum + rows.size, encoded.sequences.length);
    checkLimit(model, "max_sequences", number, source, "sequences for its words, each hidden once");
  }
  return encoded;
}

/** Returns the answer to an item as the JSON object of its route. `run` computes the outputs of a sequence. */
export async function answer(model, item, encoded, options, run) {
  const outputsOf = async (sequence) => {
    const outputs = await run(featuresOf(model, sequence));
    if (!Object.values(outputs).every(({ data }) => data.every(Number.isFinite))) {
      throw new Error("the scores of the model are not finite numbers, so its weights are broken; export another");
    }
    return outputs;
  };
  const outputs = [];
  for (const sequence of encoded.sequences) outputs.push(await outputsOf(sequence));
  const made = TASKS[model.settings.task].answer(model, item, encoded, outputs, options);
  return options.why ? { ...made, words: await weightsOfWords(model, item, encoded, outputs, outputsOf) } : made;
}

/** Returns the words of a classifier's texts with their weights: the score of the best label, less that without the word. */
async function weightsOfWords(model, item, { sequences }, outputs, outputsOf) {
  const { scores } = TASKS[model.settings.task];
  const whole = scores(model, outputs);
  const label = whole.indexOf(Math.max(...whole));
  const found = [];
  for (const [{ start, end, field }, rows] of placesOfWords(model, sequences)) {
    const changed = [...outputs];
    for (const [row, positions] of rows) changed[row] = await outputsOf(masked(model, sequences[row], positions));
    const word = textOf(codePoints(item[field]).slice(start, end));
    found.push({ word, start, end, weight: whole[label] - scores(model, changed)[label], field });
  }
  return found;
}

/** Returns the number of tokens of an item, and whether the model ignores some of them. */
export function lengthOf(model, item, { isCut }) {
  const count = (text) => model.tokenizer.tokenize(text).length;
  const countWithMasks = (text) => {
    const parts = text.split(MASK);
    return parts.reduce((sum, part) => sum + count(part), parts.length - 1);
  };
  const counts = Object.values(item).flat().map(TASKS[model.settings.task].hasMasks ? countWithMasks : count);
  return { num_tokens: counts.reduce((sum, number) => sum + number), is_cut: Boolean(isCut) };
}

/** Returns the inputs of the network for a sequence, arrays of integers of one row. */
function featuresOf(model, { tokens, segments, positions }) {
  const length = TASKS[model.settings.task].readsPadding ? model.settings.max_seq_length : tokens.length;
  const padded = (values) => Int32Array.from({ length }, (_, place) => values[place] ?? 0);
  const features = {
    input_ids: padded(tokens.map((token) => token.id)),
    input_mask: padded(tokens.map(() => 1)),
    segment_ids: padded(segments),
  };
  if (positions) features.masked_lm_positions = Int32Array.from(positions);
  return features;
}

function checkTopK(model, value) {
  if (value === null || value === undefined) return;
  const { labels, n_best_size: numBest } = model.settings;
  const most = labels?.length ?? numBest ?? model.tokenizer.tokens.length;
  if (!Number.isInteger(value) || value < 1 || value > most) {
    throw new Error(`top_k is ${JSON.stringify(value)}, but must be a whole number from 1 to ${most}`);
  }
}

function checkThreshold(model, value) {
  if (value === null || value === undefined) return;
  const { hasOdds } = TASKS[model.settings.task];
  if (typeof value !== "number" || !(hasOdds || (value >= 0 && value <= 1))) {
    const needed = hasOdds ? "a number" : "a number from 0 to 1";
    throw new Error(`threshold is ${JSON.stringify(value)}, but must be ${needed}`);
  }
}

function checkWhy(value) {
  if (value === undefined || typeof value === "boolean") return;
  if (value === "gradients") {
    throw new Error('why is "gradients", which an export does not have; give true, or take the model of the run');
  }
  throw new Error(`why is ${JSON.stringify(value)}, but must be true or false`);
}
