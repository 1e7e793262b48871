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

export function eventWord(type) {
  return EVENTS[type] ?? type;
}

export function waitWords(waitsFor) {
  return WAITS[waitsFor] ?? null;
}
