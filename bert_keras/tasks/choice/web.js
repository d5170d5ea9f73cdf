/** Multiple choice in the browser, see web_answers.js. */

import { checkText, encodeList, softmax } from "./web_sequences.js";

function encodeChoices(model, { text, choices }, source) {
  checkText(model, text, source);
  if (!Array.isArray(choices) || choices.length < 2) {
    throw new Error(`${source} has no list of choices; give two or more`);
  }
  choices.forEach((choice, number) => checkText(model, choice, source, `choice ${number + 1}`));
  return encodeList(model, { text, choices });
}

function choose(model, { text, choices }, encoded, outputs) {
  const probabilities = softmax(outputs.map(({ logits }) => logits.data[0]));
  return { text, choices, index: probabilities.indexOf(Math.max(...probabilities)), probabilities };
}

export const TASKS = { multiple_choice: { encode: encodeChoices, answer: choose, options: () => ({}) } };
