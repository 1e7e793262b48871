// What a page shows of one campaign, by contract 003: a snapshot always wins, an event has to be
// newer than what was applied, and a guess lasts until either of them says how it is.
//
// Views are never changed in place. Where nothing changed, the very same view comes back.

import { moved } from "./accounting.js";
import { shownState } from "./phase_words.js";
import { AIMS, PROGRESS_EVENT, STATE_SET_BY, controlPhase } from "./phase_machine.js";

const IN_PROGRESS = "in_progress";

/** A lifecycle event after which counts and runs are others: the page fetches a snapshot. */
const TURNING_POINTS = new Set(["phase_started", "phase_completed", "phase_failed"]);

export function viewOf(snapshot) {
  return applySnapshot(null, snapshot);
}

/** The snapshot is the truth: it overwrites everything, guesses and sequence included. */
export function applySnapshot(_view, snapshot) {
  return {
    campaignId: snapshot.campaignId,
    name: snapshot.name,
    recipients: snapshot.recipients,
    phaseOrder: snapshot.phaseOrder ?? Object.keys(snapshot.phases),
    phases: snapshot.phases,
    lastSequence: snapshot.lastSequence,
    guesses: {},
  };
}

/** An event at or below the last sequence is dropped; progress never says a state. */
export function applyEvent(view, event) {
  if (event.campaignId !== view.campaignId || event.sequence <= view.lastSequence) {
    return view;
  }
  const next = { ...view, lastSequence: event.sequence };
  if (!(event.phase in view.phases)) {
    return next;
  }
  if (event.type === PROGRESS_EVENT) {
    return applyProgress(next, event);
  }
  const state = STATE_SET_BY[event.type];
  if (state === undefined) {
    return next;
  }
  const changed = withPhase(next, event.phase, stateChange(view, event, state));
  return outlives(view.guesses[event.phase], event) ? changed : withoutGuess(changed, event.phase);
}

/** What was asked for after the event's own cause is still to come: it stays on show. */
function outlives(made, event) {
  return made !== undefined && (made.isQueued || event.sequence <= made.after);
}

/** Progress that is news and yet not applied, because its phase is not in progress. */
export function ignores(view, event) {
  return event.type === PROGRESS_EVENT && event.campaignId === view.campaignId
    && event.sequence > view.lastSequence && event.phase in view.phases
    && stateOf(view, event.phase) !== IN_PROGRESS;
}

/** Only a phase that is in progress progresses; what comes late for another is ignored. */
export function applyProgress(view, event) {
  if (stateOf(view, event.phase) !== IN_PROGRESS) {
    return view;
  }
  const { progressPercentage, accounting, runId } = event.payload;
  return withPhase(view, event.phase, {
    progressPercentage,
    ...(accounting && { accounting, outcome: outcomeAfter(view.phases[event.phase], accounting) }),
    ...(runId && { runId }),
    updatedAt: event.timestamp,
  });
}

/** What holds its phases up, of a snapshot that says nothing else here: the same run, and state. */
export function applyBlockers(view, snapshot) {
  return view.phaseOrder.reduce((next, phase) => {
    const { state, runId, blockers = [], rollout = [] } = view.phases[phase];
    const found = snapshot.phases[phase];
    const isSame = found?.state === state && found.runId === runId;
    const steps = found?.rollout ?? [];
    return isSame && JSON.stringify([found.blockers, steps]) !== JSON.stringify([blockers, rollout])
      ? withPhase(next, phase, { blockers: found.blockers, rollout: steps }) : next;
  }, view);
}

/** Of all runs of a launch; the next snapshot says it where this one cannot. */
export function outcomeAfter({ outcome, accounting: before }, after) {
  return outcome && before && after ? moved(outcome, before, after) : outcome ?? null;
}

/**
 * Shown at once, until an event, a snapshot or a refusal says how it really is. `isQueued`: it
 * waits for the answer to an earlier one, and what is shown meanwhile is about that.
 */
export function guess(view, phase, action, guessId, { isQueued = false } = {}) {
  if (!(phase in view.phases) || !(action in AIMS)) {
    return view;
  }
  const made = { state: AIMS[action], action, guessId, sequence: null, isQueued, after: 0 };
  return { ...view, guesses: { ...view.guesses, [phase]: made } };
}

/** It is asked for now; events up to this sequence are about what was asked for before it. */
export function sendGuess(view, phase, guessId, after) {
  const made = view.guesses[phase];
  if (made?.guessId !== guessId) {
    return view;
  }
  return { ...view, guesses: { ...view.guesses, [phase]: { ...made, isQueued: false, after } } };
}

/** The server's answer: what it changed comes as an event too; what was so already does not. */
export function confirmGuess(view, answer, guessId) {
  const { phase, state, sequence, changed } = answer;
  if (!changed) {
    return correct(view, phase, state, guessId);
  }
  const made = view.guesses[phase];
  if (made === undefined || made.guessId !== guessId) {
    return view;
  }
  if (sequence <= view.lastSequence) {
    return withoutGuess(view, phase);
  }
  return { ...view, guesses: { ...view.guesses, [phase]: { ...made, state, sequence } } };
}

/** A 409 names the state as it is: the view says so too. Only the guess that asked is answered. */
export function correct(view, phase, currentState, guessId) {
  const made = view.guesses[phase];
  if (made === undefined || made.guessId !== guessId || !(phase in view.phases)) {
    return view;
  }
  return withoutGuess(withPhase(view, phase, { state: currentState }), phase);
}

/** The request failed, nobody knows how: what was known before is shown again. */
export function withdraw(view, phase, guessId) {
  return view.guesses[phase]?.guessId === guessId ? withoutGuess(view, phase) : view;
}

/** The state to show: the guess where there is one. */
export function stateOf(view, phase) {
  return view.guesses[phase]?.state ?? view.phases[phase]?.state;
}

/** As it is said: stopped and scheduled too. */
export function shownStateOf(view, phase, now) {
  if (view.guesses[phase]?.action === "stop") {
    return "stopped";
  }
  return shownState(view.phases[phase], stateOf(view, phase), now);
}

export function controlPhaseOf(view) {
  return controlPhase(view.phaseOrder, (phase) => stateOf(view, phase));
}

export function isGuessed(view, phase) {
  return phase in view.guesses;
}

export function wantsSnapshot(event) {
  return TURNING_POINTS.has(event.type);
}

function stateChange(view, event, state) {
  const change = { state, updatedAt: event.timestamp, sequence: event.sequence };
  change.reason = event.payload?.reason ?? null;
  change.blockers = [];
  if (event.type === "phase_started") {
    change.startedAt = event.timestamp;
    change.finishedAt = null;
    change.progressPercentage = 0;
    change.accounting = null;
    change.outcome = null;
    change.runStatus = null;
    change.runId = event.payload?.runId ?? null;
  }
  if (state === "completed" || state === "failed") {
    change.finishedAt = event.timestamp;
  }
  return change;
}

function withPhase(view, phase, change) {
  const phases = { ...view.phases, [phase]: { ...view.phases[phase], ...change } };
  return { ...view, phases };
}

function withoutGuess(view, phase) {
  if (!(phase in view.guesses)) {
    return view;
  }
  const { [phase]: _answered, ...guesses } = view.guesses;
  return { ...view, guesses };
}
