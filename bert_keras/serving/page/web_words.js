/** Splits running text into words as in tagged corpora: split_words of data_prep/text/words.py in JavaScript. */

import { BasicTokenizer, codePoints, numbersOf } from "./tokenizer.js";

const INNER = new Set("-./&_@+'’");
const INNER_OF_NUMBERS = new Set(",:");
const APOSTROPHES = new Set("'’");
const SUFFIXES = new Set(["s", "m", "d", "ll", "re", "ve"]);
const RUNS = new Set("-.");
const [OF_WORD, DIGIT, CAPITAL] = [1, 2, 4]; // as in export/formats/web_tokenizer.py

export class WordSplitter {
  /** The tables are those of unicode.json. */
  constructor(tables) {
    this._basicTokenizer = new BasicTokenizer(tables.splitter);
    this._classes = numbersOf(tables.character_classes, Uint8Array);
  }

  /** Returns [start, end] of each word, in code points. */
  split(text) {
    const codes = codePoints(text);
    const parts = [];
    for (const { sources } of this._basicTokenizer.words(codes)) parts.push([sources[0], sources.at(-1) + 1]);
    const spans = [];
    for (let number = 0; number < parts.length; ) {
      const first = number;
      number = this._endOfWord(codes, parts, first);
      spans.push([parts[first][0], parts[number - 1][1]]);
    }
    return spans;
  }

  /** Returns the index of the first part after the word that starts at part `first`. */
  _endOfWord(codes, parts, first) {
    if (isSuffix(codes, parts, first, this)) return first + 2;
    let end = first + 1;
    const mark = textBetween(codes, parts[first][0], parts[first][0] + 1);
    if (RUNS.has(mark)) {
      while (touches(parts, end) && codes[parts[end][0]] === codes[parts[first][0]]) end++;
      return end;
    }
    while (this._continues(codes, parts, end)) end += 2;
    const hasDot = touches(parts, end) && codes[parts[end][0]] === ".".codePointAt(0);
    return hasDot && this._isAbbreviated(codes, parts[first][0], parts[end - 1][1]) ? end + 1 : end;
  }

  /** Whether part `number` is a mark that joins the next part to the word before it. */
  _continues(codes, parts, number) {
    if (!(touches(parts, number) && touches(parts, number + 1)) || isSuffix(codes, parts, number, this)) return false;
    const mark = textBetween(codes, ...parts[number]);
    const before = codes[parts[number - 1][1] - 1];
    const after = codes[parts[number + 1][0]];
    if (INNER_OF_NUMBERS.has(mark)) return this.is(before, DIGIT) && this.is(after, DIGIT);
    return INNER.has(mark) && this.is(before, OF_WORD) && this.is(after, OF_WORD);
  }

  /** Whether the dot after a word is part of it: true for U.S and J, false for Smith. */
  _isAbbreviated(codes, start, end) {
    if (end - start === 1 && this.is(codes[start], CAPITAL)) return true;
    const letters = textBetween(codes, start, end).split(".");
    return letters.length > 1 && letters.every((part) => codePoints(part).length === 1);
  }

  is(code, kind) {
    return (this._classes[code] & kind) > 0;
  }
}

/** Whether part `number` exists and directly follows the part before it. */
function touches(parts, number) {
  return number < parts.length && parts[number][0] === parts[number - 1][1];
}

/** Whether a part is an apostrophe and the next part is an ending to split off with it. */
function isSuffix(codes, parts, number, splitter) {
  if (!APOSTROPHES.has(textBetween(codes, ...parts[number])) || !touches(parts, number + 1)) return false;
  const [start, end] = parts[number + 1];
  // No other letter than A to Z has a letter of these endings as its lower case.
  const ending = textBetween(codes, start, end).replace(/[A-Z]/g, (letter) => letter.toLowerCase());
  const continues =
    touches(parts, number + 2) && INNER.has(textBetween(codes, end, end + 1)) && splitter.is(codes[end + 1], OF_WORD);
  return SUFFIXES.has(ending) && !continues;
}

function textBetween(codes, start, end) {
  return String.fromCodePoint(...codes.slice(start, end));
}
