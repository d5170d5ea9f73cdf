// The view of the words that carry an answer: shaded in their texts, their sums, and the strongest in a list.

import { barOf, chooser, make, marked, share } from "./dom.js";
import { ranked } from "./views.js";

const MOST_WORDS = 8;
// Words with less than this share of the full colour are not marked.
const LEAST_SHARE = 0.05;
// If no word has this share, none carries the answer.
const SHARE_OF_A_CARRIER = 0.1;
const NOTE =
  "A weight is the score of the answer, less its score with this word hidden. Attention is not an explanation: a " +
  "model may look at words that do not change its answer.";
const NEEDS_SERVER =
  "For this task, the page needs a server that runs the model: in the browser, hiding each word takes too long.";

// The same weight has the same colour in every text. Task -> the weight of the full colour, and what it is a change of.
const OF_PROBABILITY = { full: 0.5, of: "the probability" };
const SCALES = {
  classification: OF_PROBABILITY,
  multi_label: OF_PROBABILITY,
  token_classification: OF_PROBABILITY,
  regression: { full: 1, of: "the number" },
  question_answering: { full: 5, of: "the score, a sum of two logits" },
};
/** Task -> function of an answer that returns a list of [what the words explain, the words with their weights]. */
const EXPLAINED = {
  classification: ({ label, words }) => [[label, words]],
  regression: ({ value, words }) => [[String(Number(value.toPrecision(6))), words]],
  multi_label: ({ probabilities, words }, model) => [[ranked(model, probabilities)[0][0], words]],
  question_answering: ({ text, words }) => [[text || "no answer", words]],
  token_classification: ({ entities, entity_words: words }) =>
    entities.map(({ type, text }, number) => [`${type}: ${text}`, words[number]]),
};

const signed = (weight) => {
  const size = Math.abs(weight).toFixed(3);
  return Number(size) ? `${weight < 0 ? "−" : "+"}${size}` : size;
};

/** Returns whether the page can say why a model gives an answer. */
export const isExplained = ({ task, options }) => task in EXPLAINED || options.includes("why");

/** Returns the view of an item; `load()` promises the answer with the weights of its words. */
export async function whyView(model, item, load) {
  if (!model.options.includes("why")) return make("p", {}, NEEDS_SERVER);
  const explained = (EXPLAINED[model.task] ?? EXPLAINED.classification)(await load(), model);
  if (!explained.length) return make("p", { className: "muted" }, "The model found nothing in this text.");
  const scale = SCALES[model.task] ?? OF_PROBABILITY;
  const names = explained.map(([name]) => name);
  return chooser("Explain", names, (place, number) => place.replaceChildren(...wordsView(...explained[number], item, scale)));
}

function wordsView(name, words, item, { full, of }) {
  const shareOf = (weight) => Math.min(1, Math.abs(weight) / full);
  const kindOf = (weight) => (shareOf(weight) < LEAST_SHARE ? "why" : weight > 0 ? "why supports" : "why opposes");
  const mark = ({ weight }, text) =>
    share(make("mark", { className: kindOf(weight), title: signed(weight) }, text), shareOf(weight));
  const fields = [...new Set(words.map(({ field }) => field))];
  const texts = fields.map((field) => marked(item[field], words.filter((word) => word.field === field), mark));
  const sum = (sign) => words.reduce((total, { weight }) => total + (weight * sign > 0 ? weight : 0), 0);
  const strongest = [...words].sort((one, other) => Math.abs(other.weight) - Math.abs(one.weight)).slice(0, MOST_WORDS);
  const inSecond = () => make("small", { className: "muted" }, " in the second text");
  // A word that is shown as 0.000 says nothing.
  const rows = strongest.filter(({ weight }) => Number(Math.abs(weight).toFixed(3))).map(({ word, weight, field }) => {
    const name = [word, ...(field === fields[1] ? [inSecond()] : [])];
    return make("li", { className: weight < 0 ? "bar opposing" : "bar" }, barOf(name, signed(weight), shareOf(weight)));
  });
  const key = [
    [share(make("mark", { className: "why supports" }, "for the answer"), 0.7), ` add up to ${signed(sum(1))}, `],
    [share(make("mark", { className: "why opposes" }, "against it"), 0.7), ` to ${signed(sum(-1))}.`],
  ];
  const hasCarrier = words.some(({ weight }) => shareOf(weight) >= SHARE_OF_A_CARRIER);
  return [
    make("p", { className: "result", dir: "auto" }, name),
    ...(hasCarrier ? [] : [make("p", { role: "note" }, "No single word carries this answer.")]),
    ...texts,
    make("p", { className: "sums" }, "Words ", ...key[0], "words ", ...key[1]),
    make("p", { className: "muted" }, `The full colour is a change of ${full} or more in ${of}.`),
    ...(rows.length ? [make("h3", {}, "Strongest words"), make("ol", { className: "bars" }, rows)] : []),
    make("p", { className: "muted" }, NOTE),
  ];
}
