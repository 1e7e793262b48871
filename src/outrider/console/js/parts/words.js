// Words for what the server says in codes.

import { count } from "../state/format.js";
import { words as texts } from "../texts/parts.js";

const ACTIONS = {
  start: { words: texts.start, sign: "play", look: "primary" },
  pause: { words: texts.pause, sign: "pause", look: "primary" },
  resume: { words: texts.resume, sign: "play", look: "primary" },
  stop: { words: texts.stop, sign: "stop", look: "danger" },
  retry: { words: texts.retry, sign: "retry", look: "primary" },
  rerun: { words: texts.runAgain, sign: "retry", look: "" },
};

const WAITS = { approval: texts.waitsForApproval, room: texts.waitsForRoom };

export function actionLook(action) {
  return ACTIONS[action];
}

export function eventWord(event) {
  return isStop(event) ? texts.stopped : texts.events[event.type] ?? event.type;
}

/** To the state machine a stop is a failure; to people it is a stop. */
export function isStop({ type, payload }) {
  return type === "phase_failed" && payload?.reason === "stopped";
}

/** The contract's attempt; and which call of it, where a lost worker's call was repeated. */
export function attemptWords({ contractAttempt, engineAttempt }) {
  return engineAttempt > 1 ? texts.attemptAndCall(count(contractAttempt), count(engineAttempt))
    : count(contractAttempt);
}

export function reasonWords(reason) {
  return reason.replaceAll("_", " ");
}

export function waitWords(waitsFor) {
  return WAITS[waitsFor] ?? null;
}
