// The server's phase machine, mirrored: it decides which buttons are shown and enabled, and never
// overrides a snapshot or an event. A Python test compares these tables with the server's own.

export const TRANSITIONS = Object.freeze({
  not_started: { start: "in_progress" },
  in_progress: { pause: "paused", complete: "completed", fail: "failed" },
  paused: { resume: "in_progress" },
  completed: { rerun: "in_progress" },
  failed: { retry: "in_progress" },
});

export const STATES = Object.freeze(Object.keys(TRANSITIONS));

/** Which state each lifecycle event brings a phase into. */
export const STATE_SET_BY = Object.freeze({
  phase_started: "in_progress",
  phase_paused: "paused",
  phase_resumed: "in_progress",
  phase_completed: "completed",
  phase_failed: "failed",
});

export const PROGRESS_EVENT = "campaign_progress";

/** Where each action that people may ask for leads to. */
export const AIMS = Object.freeze({
  start: "in_progress",
  pause: "paused",
  resume: "in_progress",
  stop: "failed",
  rerun: "in_progress",
  retry: "in_progress",
});

const BEGINNINGS = Object.freeze(["start", "retry", "rerun"]);
const CONTROLS = Object.freeze(["pause", "resume", "stop"]);

export function canTransition(from, to) {
  return Object.values(TRANSITIONS[from] ?? {}).includes(to);
}

/** Whether the action changes something; stop is a failure, from paused by way of a resume. */
export function allows(state, action) {
  if (action === "stop") {
    return state === "in_progress" || state === "paused";
  }
  return action in AIMS && action in (TRANSITIONS[state] ?? {});
}

/** The one phase that controls target: what is paused, else what is in progress. */
export function controlPhase(order, stateOf) {
  const first = (wanted) => order.find((phase) => stateOf(phase) === wanted);
  return first("paused") ?? first("in_progress") ?? null;
}

/**
 * The actions a phase's buttons offer. While a phase is under way only it has any; else those that
 * begin one, where every phase before it is completed.
 */
export function actionsOf(phase, order, stateOf) {
  const controlled = controlPhase(order, stateOf);
  const state = stateOf(phase);
  if (controlled !== null) {
    return phase === controlled ? CONTROLS.filter((action) => allows(state, action)) : [];
  }
  const before = order.slice(0, order.indexOf(phase));
  const isNext = before.every((other) => stateOf(other) === "completed");
  return isNext ? BEGINNINGS.filter((action) => allows(state, action)) : [];
}
