// Blockers as values: which of them nobody decided, and the commands inside their sentences.

const FAULTS = new Set(["TARGET_THROTTLED", "TARGET_DOWN", "NO_WORKER", "DATABASE_DOWN",
  "ENGINE_DOWN", "DATABASE_RESTORED", "IN_DOUBT"]);

/** Somebody may have to act; the others are as they were decided, and end by themselves. */
export function isFault({ code }) {
  return FAULTS.has(code);
}

const MARKED = /`([^`]+)`|(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z)/;

/** A sentence in parts: commands between backticks, timestamps, and the words around them. */
export function marked(words) {
  const parts = [];
  // Words, then what is between backticks or nothing, then a timestamp or nothing, and so on.
  words.split(MARKED).forEach((text, place) => {
    if (text) {
      parts.push({ text, kind: ["words", "command", "timestamp"][place % 3] });
    }
  });
  return parts;
}

const SECTIONS = { IN_DOUBT: "DOUBTS_WAITING" };
const RUNBOOK = "/console/runbook.html";

/** The section of the runbook about an alert's or blocker's code. */
export function runbookLink(code) {
  return `${RUNBOOK}#${(SECTIONS[code] ?? code).toLowerCase()}`;
}

/** What happened, without what the blockers shown beside it say again. */
export function besides({ sentences, blockers }) {
  const said = new Set(blockers.map(({ message, hint }) => `${message} ${hint}`));
  return sentences.filter((each) => !said.has(each));
}

/** What a failed request itself says about why nothing moves; null if it says nothing. */
export function outageOf(error) {
  const said = error?.error?.blockers;
  return Array.isArray(said) && said.length > 0 ? said : null;
}
