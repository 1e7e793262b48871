// Sentences of the server's: commands and names look like code, times are in the reader's zone.

import { h } from "../dom.js";
import { marked } from "../state/blockers.js";
import { exactMoment } from "./timestamps.js";
import { reasonWords } from "./words.js";

export function sentence(words, wordsOf = (text) => text) {
  return marked(words).map(({ text, kind }) => ({
    command: () => h("code", {}, text),
    timestamp: () => exactMoment(text),
    words: () => wordsOf(text),
  })[kind]());
}

/** A code, or a sentence with one in it. A name between backticks stays as its author wrote it. */
export function reasonSentence(reason) {
  return sentence(reason, reasonWords);
}
