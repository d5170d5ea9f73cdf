/** Reranking in the browser, see web_answers.js. */

import { checkText, encodeList, sigmoid } from "./web_sequences.js";

function encodeQuery(model, { query, texts }, source) {
  checkText(model, query, source, "query");
  if (!Array.isArray(texts) || !texts.length) throw new Error(`${source} has no list of texts; give one or more`);
  texts.forEach((text, number) => checkText(model, text, source, `text ${number + 1}`));
  return encodeList(model, { query, texts });
}

function rank(model, { query, texts }, encoded, outputs, { raw_scores: isRaw }) {
  const logits = outputs.map(({ logits: found }) => found.data[0]);
  const scores = model.settings.activation === "sigmoid" && !isRaw ? sigmoid(logits) : logits;
  const ranked = texts.map((text, index) => ({ index, text, score: scores[index] }));
  return { query, texts: ranked.sort((one, other) => logits[other.index] - logits[one.index]) };
}

export const TASKS = { rerank: { encode: encodeQuery, answer: rank, options: () => ({ raw_scores: false }) } };
