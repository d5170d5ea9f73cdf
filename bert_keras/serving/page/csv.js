// Reads and writes tables of CSV and TSV. The rules are those of the programs, in bert_keras/storage/csv_rows.py.

const DELIMITERS = [",", ";", "\t", "|"];
const LINE_END = /\r*\n|\r/g;
// Excel takes the delimiter from such a first line.
const SEPARATOR_LINE = /^"?sep=([^\r\n"])"?(?:\r*\n|\r|$)/i;
const COMMA_OUTSIDE_NUMBER = /(?<!\d),|,(?!\d)/;
// Of the text in which the delimiter is looked for.
const MOST_CHARS = 1 << 20;
const MOST_ROWS = 1000;

const isBlankRow = ({ cells }) => !cells.some((cell) => cell.trim());

/**
 * Returns { rows: [{ line, cells }], numBlank, separatorLine, delimiter, lineEnd } of a text: rows that are not blank,
 * the number of the others, and how to write such a file. In TSV, a quote is a character unless quotes enclose the cell.
 */
export function readTable(text, isTsv) {
  const separator = SEPARATOR_LINE.exec(text);
  const delimiter = separator?.[1] ?? (isTsv ? "\t" : delimiterOf(text.slice(0, MOST_CHARS)));
  const separatorLine = separator?.[0] ?? "";
  const isPlain = isTsv && !separator;
  const all = [...split(text.slice(separatorLine.length), delimiter, isPlain, separator ? 2 : 1, isPlain)];
  const rows = all.filter((row) => !isBlankRow(row));
  const numCells = rows[0]?.cells.length;
  const other = rows.find(({ cells }) => cells.length !== numCells);
  if (other) {
    const number = `${other.cells.length} ${other.cells.length === 1 ? "cell" : "cells"}`;
    throw new Error(`Line ${other.line} has ${number}, but the first row has ${numCells}; check the quotes in that line.`);
  }
  const lineEnd = text.includes("\r\n") ? "\r\n" : "\n";
  return { rows, numBlank: all.length - rows.length, separatorLine, delimiter, lineEnd };
}

/** Returns the text of rows, each a list of cells. */
export function writeTable(rows, { separatorLine, delimiter, lineEnd }) {
  const needsQuotes = (cell) => cell.includes(delimiter) || /["\r\n]/.test(cell);
  const written = (cell) => (needsQuotes(cell) ? `"${cell.replaceAll('"', '""')}"` : cell);
  return separatorLine + rows.map((cells) => cells.map(written).join(delimiter) + lineEnd).join("");
}

/** Returns the delimiter that gives the most rows as many cells as the first row, at least two. The default is the comma. */
function delimiterOf(sample) {
  const shares = DELIMITERS.map((delimiter) => shareOfSameLength(sample, delimiter));
  if (shares.slice(1).some(Boolean) && !COMMA_OUTSIDE_NUMBER.test(sample)) shares[0] = 0;
  return DELIMITERS[shares.indexOf(Math.max(...shares))];
}

function shareOfSameLength(sample, delimiter) {
  const counts = new Map();
  let first = 0;
  let numRows = 0;
  for (const row of split(sample, delimiter, true)) {
    if (isBlankRow(row)) continue;
    if (numRows === MOST_ROWS) break;
    numRows += 1;
    first ||= row.cells.length;
    counts.set(row.cells.length, (counts.get(row.cells.length) ?? 0) + 1);
  }
  const most = Math.max(...counts.values());
  return first > 1 && counts.get(first) === most ? most / numRows : 0;
}

/** Yields the rows of a text. If quotes `mayBeText`, a cell that they do not enclose has them as characters. */
function* split(text, delimiter, mayBeText, firstLine = 1, isTsv = false) {
  const isEnd = (place) => place === text.length || text[place] === delimiter || /[\r\n]/.test(text[place]);
  const plain = new RegExp(`[^\\r\\n\\u${delimiter.charCodeAt(0).toString(16).padStart(4, "0")}]*`, "y");
  const hasOneColumn = isTsv && !text.includes(delimiter);
  let [start, line, width] = [0, firstLine, 0];

  /** Returns { cells, end } of the row at `start`. `isTwo` decides whether what quotes enclose is two cells. */
  const readRow = (isTwo) => {
    for (let [place, cells] = [start, []]; ; place += 1) {
      const close = text[place] === '"' ? closingQuote(text, place) : null;
      const within = close > 0 ? text.slice(place + 1, close) : "";
      if (close > 0 && isEnd(close + 1) && !isTwo(within)) {
        cells.push(within.replaceAll('""', '"'));
        place = close + 1;
      } else if (close === null || mayBeText) {
        plain.lastIndex = place;
        cells.push(plain.exec(text)[0]);
        place = plain.lastIndex;
      } else if (close < 0) {
        throw new Error(`Line ${line}: a quote is opened and never closed; close it, or double quotes that are text.`);
      } else {
        throw new Error(`Line ${line}: text follows a closing quote; double the quotes inside a cell, as in "a ""b"" c".`);
      }
      if (text[place] !== delimiter) return { cells, end: place };
    }
  };

  while (start < text.length) {
    // With both in one cell of TSV, these are probably two cells with one quote each; so are line ends without any tab.
    let row = readRow((within) => mayBeText && /[\r\n]/.test(within) && (within.includes("\t") || hasOneColumn));
    if (isTsv && width && row.cells.length !== width) {
      // So are tabs alone, if only two cells give the row as many as the first one has.
      const other = readRow((within) => within.includes("\t"));
      if (other.cells.length === width) row = other;
    }
    yield { line, cells: row.cells };
    width ||= row.cells.length;
    line += 1 + (text.slice(start, row.end).match(LINE_END)?.length ?? 0);
    LINE_END.lastIndex = row.end;
    start = LINE_END.test(text) ? LINE_END.lastIndex : text.length;
  }
}

/** Returns the place of the quote that closes the cell whose first quote is at `start`; -1: none. */
function closingQuote(text, start) {
  let place = text.indexOf('"', start + 1);
  while (place >= 0 && text[place + 1] === '"') place = text.indexOf('"', place + 2);
  return place;
}
