/**
 * The WordPiece tokenizer of the original BERT: the same tokens, ids and offsets as FullTokenizer in Python.
 *
 * JavaScript engines differ in their Unicode versions. All rules of characters therefore come from tables that Python
 * writes (export/formats/web_tokenizer.py), and this file calls no Unicode function of the engine. Offsets count code
 * points.
 */

// The form of the tables: data_prep/text/graph/code_point_tables.py.
const NUM_CODE_POINTS = 0x110000;
const EXPANDS = 1 << 26;
const NUM_LENGTH_BITS = 4;
const NUM_KIND_BITS = 2;
const [IN_WORD, SPACE, , MARK] = [0, 1, 2, 3];
const [PASSED_OVER, CASED] = [0, 1];

const CAPITAL_SIGMA = 0x3a3;
const FINAL_SIGMA_STEP = (0x3c2 - 0x3c3) << NUM_KIND_BITS;

const ZERO_WIDTH_SPACE = 0x200b;
const UNKNOWN = "[UNK]";
const MAX_CACHED_WORDS = 1 << 15;

/** Returns the code points of a text; half of a surrogate pair is one, too. */
export function codePoints(text) {
  const codes = [];
  for (let place = 0; place < text.length; place++) {
    const code = text.codePointAt(place);
    codes.push(code);
    place += code > 0xffff;
  }
  return codes;
}

/** Returns the text of code points, an array. */
export function textOf(codes) {
  let text = "";
  for (let start = 0; start < codes.length; start += 4096) {
    text += String.fromCodePoint(...codes.slice(start, start + 4096));
  }
  return text;
}

/** Returns the number of each code point, given runs of equal differences: [difference, count, difference, ...]. */
export function numbersOf(runs, Type = Int32Array) {
  const numbers = new Type(NUM_CODE_POINTS);
  let number = 0;
  let code = 0;
  for (let run = 0; run < runs.length; run += 2) {
    for (const end = code + runs[run + 1]; code < end; code++) {
      number += runs[run];
      numbers[code] = number;
    }
  }
  return numbers;
}

/** Splits text into words: cleans it, splits off ideographs and punctuation, lower-cases, strips accents. */
export class BasicTokenizer {
  /** The tables are an entry of unicode.json; those that its rules do not need are null. */
  constructor(tables) {
    this._map = numbersOf(tables.map);
    let packed = 0;
    this._expansions = Int32Array.from(tables.expansion_steps, (step) => (packed += step));
    this._sigmaContexts = tables.sigma_contexts && numbersOf(tables.sigma_contexts, Uint8Array);
    this._combiningClasses = tables.combining_classes && numbersOf(tables.combining_classes, Uint8Array);
    this._droppedMarks = tables.dropped_marks && numbersOf(tables.dropped_marks, Uint8Array);
  }

  /** Yields each word of some code points as {codes, sources}: its code points, and the place that each comes from. */
  *words(codes) {
    const { packed, sources } = this._normalize(codes);
    let word = { codes: [], sources: [] };
    for (let place = 0; place < packed.length; place++) {
      const kind = packed[place] & 3;
      if (kind === MARK) continue;
      if (kind !== IN_WORD && word.codes.length) {
        yield word;
        word = { codes: [], sources: [] };
      }
      if (kind === SPACE) continue;
      word.codes.push(packed[place] >> NUM_KIND_BITS);
      word.sources.push(sources[place]);
      if (kind !== IN_WORD) {
        yield word;
        word = { codes: [], sources: [] };
      }
    }
    if (word.codes.length) yield word;
  }

  /** Returns an end, moved behind the dropped marks that follow it. */
  behindMarks(codes, end) {
    while (this._droppedMarks && end < codes.length && this._droppedMarks[codes[end]]) end++;
    return end;
  }

  /** Returns packed characters, (code point << 2) + kind, and the place that each comes from. */
  _normalize(codes) {
    const packed = [];
    const sources = [];
    let runStart = -1; // of marks that are not in canonical order yet
    for (let source = 0; source < codes.length; source++) {
      const code = codes[source];
      const entry = this._map[code];
      if (entry < EXPANDS) {
        const isFinal = code === CAPITAL_SIGMA && this._sigmaContexts && this._isFinalSigma(codes, source);
        packed.push((code << NUM_KIND_BITS) + entry + (isFinal ? FINAL_SIGMA_STEP : 0));
        sources.push(source);
        runStart = -1;
        continue;
      }
      // In tables that strip accents, all characters with a combining class expand.
      const place = entry - EXPANDS;
      const first = place >> NUM_LENGTH_BITS;
      const end = first + (place & ((1 << NUM_LENGTH_BITS) - 1));
      for (let number = first; number < end; number++) {
        packed.push(this._expansions[number]);
        sources.push(source);
        if (this._combiningClasses) runStart = this._sortLast(packed, runStart);
      }
    }
    return { packed, sources };
  }

  /** Moves the last character before those of a higher combining class. Returns the start of its run, -1 for none. */
  _sortLast(packed, runStart) {
    const last = packed.length - 1;
    const classOf = (place) => this._combiningClasses[packed[place] >> NUM_KIND_BITS];
    if (classOf(last) === 0) return -1;
    if (runStart < 0) return last;
    let place = last;
    while (place > runStart && classOf(place - 1) > classOf(last)) place--;
    if (place < last) packed.splice(place, 0, packed.pop());
    return runStart;
  }

  /** Whether a capital sigma ends a word, by the rule of Unicode. */
  _isFinalSigma(codes, place) {
    const contextFrom = (next, step) => {
      while (this._sigmaContexts[codes[next]] === PASSED_OVER) next += step;
      return this._sigmaContexts[codes[next]];
    };
    return contextFrom(place - 1, -1) === CASED && contextFrom(place + 1, 1) !== CASED;
  }
}

function isPrivate(code) {
  return (code >= 0xe000 && code <= 0xf8ff) || (code >= 0xf0000 && (code & 0xffff) <= 0xfffd);
}

/** Converts text to WordPiece tokens, ids and positions in the text. */
export class Tokenizer {
  /**
   * @param tables an entry of unicode.json.
   * @param tokens the token of each id; "" for an id without a token.
   */
  constructor(tables, tokens) {
    this._longestWord = tables.longest_word ?? 200;
    /** Whether the rules of another library hold: TextRules in storage/tokenizer/keys.py. */
    this.isForeign = tables.is_foreign ?? false;
    const special = [...(tables.special_tokens ?? [])].sort((one, other) => other.length - one.length);
    const literal = (token) => token.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&");
    this._special = special.length ? new RegExp(`(${special.map(literal).join("|")})`) : null;
    this.basicTokenizer = new BasicTokenizer(tables);
    this.tokens = tokens;
    this.ids = new Map();
    this._longest = 0;
    tokens.forEach((token, id) => {
      if (!token) return;
      this.ids.set(token, id);
      this._longest = Math.max(this._longest, token.length);
    });
    this._pieces = new Map();
  }

  /** Returns the id of a token that every model of its task has, such as [CLS]. */
  id(token) {
    const id = this.ids.get(token);
    if (id === undefined) throw new Error(`the vocabulary lacks ${token}; export the model with its own vocabulary`);
    return id;
  }

  /** Returns the token of an id. */
  token(id) {
    return this.tokens[id] || UNKNOWN;
  }

  /** Returns {id, start, end} for each token; it comes from the code points start to end - 1 of the text. */
  tokenize(text) {
    if (!this._special) return this._tokenizePart(text);
    const found = [];
    let place = 0; // in code points
    text.split(this._special).forEach((part, number) => {
      const end = place + codePoints(part).length;
      const tokens = number % 2 ? [{ id: this.id(part), start: 0, end: end - place }] : this._tokenizePart(part);
      for (const token of tokens) found.push({ id: token.id, start: place + token.start, end: place + token.end });
      place = end;
    });
    return found;
  }

  _tokenizePart(text) {
    // As `as_in_transformers` in Python does: that library removes characters for private use.
    const codes = codePoints(text).map((code) => (this.isForeign && isPrivate(code) ? ZERO_WIDTH_SPACE : code));
    const found = [];
    for (const { codes: characters, sources } of this.basicTokenizer.words(codes)) {
      const pieces = this._piecesOf(characters);
      let first = 0;
      for (const [id, length] of pieces) {
        const last = first + length - 1;
        found.push({ id, start: sources[first], end: this.basicTokenizer.behindMarks(codes, sources[last] + 1) });
        first = last + 1;
      }
    }
    return found;
  }

  /** Returns [id, number of characters] for each word piece of a word. */
  _piecesOf(characters) {
    if (characters.length > this._longestWord) return [[this.id(UNKNOWN), characters.length]];
    const word = String.fromCodePoint(...characters);
    let pieces = this._pieces.get(word);
    if (pieces === undefined) {
      pieces = this._split(word) ?? [[this.id(UNKNOWN), characters.length]];
      if (this._pieces.size >= MAX_CACHED_WORDS) this._pieces.clear();
      this._pieces.set(word, pieces);
    }
    return pieces;
  }

  /** Returns the longest word pieces from the left; null if a part of the word matches nothing. */
  _split(word) {
    const pieces = [];
    let start = 0;
    while (start < word.length) {
      const mark = start ? "##" : "";
      let end = Math.min(word.length, start + this._longest);
      let id;
      while (end > start && (id = this.ids.get(mark + word.slice(start, end))) === undefined) end--;
      if (id === undefined) return null;
      pieces.push([id, codePoints(word.slice(start, end)).length]);
      start = end;
    }
    return pieces;
  }
}
