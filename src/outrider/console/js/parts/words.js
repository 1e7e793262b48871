// Words for what the server says in codes.

const ACTIONS = {
  start: { words: "Start", sign: "play", look: "primary" },
  pause: { words: "Pause", sign: "pause", look: "primary" },
  resume: { words: "Resume", sign: "play", look: "primary" },
  stop: { words: "Stop", sign: "stop", look: "danger" },
  retry: { words: "Retry", sign: "retry", look: "primary" },
  rerun: { words: "Run again", sign: "retry", look: "" },
};

const EVENTS = {
  phase_started: "started",
  phase_paused: "paused",
  phase_resumed: "resumed",
  phase_completed: "completed",
  phase_failed: "failed",
  campaign_progress: "progressed",
};

const WAITS = { approval: "Waits for approval", room: "Waits for room" };

export function actionLook(action) {
  return ACTIONS[action];
}

export function eventWord(event) {
  return isStop(event) ? "stopped" : EVENTS[event.type] ?? event.type;
}

/** A stop is told as the failure that it is to the state machine; to people it is a stop. */
export function isStop({ type, payload }) {
  return type === "phase_failed" && payload?.reason === "stopped";
}

export function reasonWords(reason) {
  return reason.replaceAll("_", " ");
}

export function waitWords(waitsFor) {
  return WAITS[waitsFor] ?? null;
}
