/** Classification, regression and several labels in the browser, see web_answers.js. */

import { checkText, isBlank, sequencesOf, sigmoid, softmax, tokensOf } from "./web_sequences.js";
import { withWords } from "./web_why.js";

function encodeTexts(model, item, source) {
  const { text, text_pair: pair } = item;
  checkText(model, text, source, pair === undefined ? "text" : "first text");
  // As in training, the second text may be blank.
  if (pair !== undefined && !isBlank(model, pair)) checkText(model, pair, source, "second text");
  const read = (of, field) => withWords(model, tokensOf(model, of, field));
  return sequencesOf(model, read(text, "text"), read(pair ?? "", "text_pair"));
}

/** Returns the scores of a classifier: their means over the windows of a text. */
function scoresOf(model, outputs) {
  const activation = { classification: softmax, multi_label: sigmoid }[model.settings.task] ?? Array.from;
  const rows = outputs.map(({ logits }) => activation(logits.data));
  return rows[0].map((_, place) => rows.reduce((sum, row) => sum + row[place], 0) / rows.length);
}

/** Returns [label, probability] of all labels, or the most probable ones first. Objects put names of digits first. */
function ranked(model, scores, topK) {
  const pairs = model.settings.labels.map((label, number) => [label, scores[number]]);
  return topK === null ? pairs : pairs.sort((one, other) => other[1] - one[1]).slice(0, topK);
}

const textsOf = (item) => ({ text: item.text, text_pair: item.text_pair ?? null });

function classify(model, item, encoded, outputs, { top_k: topK, coverage }) {
  const scores = scoresOf(model, outputs);
  const pairs = ranked(model, scores, topK);
  const [label] = pairs.reduce((best, pair) => (pair[1] > best[1] ? pair : best));
  const answer = { ...textsOf(item), label, probabilities: Object.fromEntries(pairs) };
  if (coverage === null) return answer;
  const least = model.settings.label_set_thresholds[coverage];
  const likely = ranked(model, scores, scores.length).filter(([, probability], rank) => rank === 0 || probability >= least);
  return { ...answer, label_set: likely.map(([name]) => name) };
}

function predictValue(model, item, encoded, outputs) {
  const [value] = scoresOf(model, outputs);
  return { ...textsOf(item), value };
}

function findLabels(model, item, encoded, outputs, { top_k: topK, threshold }) {
  const scores = scoresOf(model, outputs);
  const labels = model.settings.labels.filter((_, number) => scores[number] >= threshold);
  return { ...textsOf(item), labels, probabilities: Object.fromEntries(ranked(model, scores, topK)) };
}

function checkCoverage(model, value) {
  if (value === null || value === undefined) return;
  const thresholds = model.settings.label_set_thresholds;
  if (!thresholds) {
    throw new Error("coverage needs a model that was trained with calibrate, and this one was not; leave it out");
  }
  if (typeof value !== "number" || !(String(value) in thresholds)) {
    throw new Error(`coverage is ${JSON.stringify(value)}, but must be from 0.5 to 0.99, in steps of 0.01`);
  }
}

export const TASKS = {
  classification: {
    encode: encodeTexts,
    answer: classify,
    scores: scoresOf,
    options: () => ({ top_k: null, coverage: null, why: false }),
    check: (model, { coverage }) => checkCoverage(model, coverage),
  },
  regression: { encode: encodeTexts, answer: predictValue, scores: scoresOf, options: () => ({ why: false }) },
  multi_label: {
    encode: encodeTexts,
    answer: findLabels,
    scores: scoresOf,
    options: () => ({ top_k: null, threshold: 0.5, why: false }),
  },
};
