/** The words that carry an answer, in the browser: each is hidden in turn, as tasks/finetuning/why.py does. */

/** Returns tokens with their words, as the text is split before word pieces; the tokens of a word share an object. */
export function withWords(model, tokens) {
  let word = null;
  return tokens.map((token) => {
    if (word && model.tokenizer.token(token.id).startsWith("##")) word.end = token.end;
    else word = { start: token.start, end: token.end, field: token.text };
    return { ...token, word };
  });
}

/** Returns the words that sequences have, in the order of the texts, each with its positions by sequence. */
export function placesOfWords(model, sequences) {
  const places = new Map();
  sequences.forEach(({ tokens }, row) =>
    tokens.forEach(({ word }, position) => {
      if (!word) return;
      if (!places.has(word)) places.set(word, new Map());
      const rows = places.get(word);
      rows.set(row, [...(rows.get(row) ?? []), position]);
    }),
  );
  const field = (word) => model.fields.indexOf(word.field);
  return [...places].sort(([one], [other]) => field(one) - field(other) || one.start - other.start);
}

/** Returns a sequence with [MASK] at some positions. */
export function masked(model, { tokens, ...others }, positions) {
  const id = model.tokenizer.id("[MASK]");
  return { ...others, tokens: tokens.map((token, position) => (positions.includes(position) ? { ...token, id } : token)) };
}
