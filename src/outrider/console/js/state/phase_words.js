// How a state is said to people: a stop is no failure, and what is scheduled is not under way. The
// states themselves keep their names. The time that is now is always given.

import { phaseWords as texts } from "../texts/campaigns.js";

const MESSAGES_PHASE = "launch";

/** `found` is a phase of a snapshot or of the list; `state` the one to show, a guess included. */
export function shownState(found, state, now) {
  if (state === "failed" && found.reason === "stopped") {
    return "stopped";
  }
  return state === "in_progress" && isAhead(found, found.runStatus, now) ? "scheduled" : state;
}

export function shownRunState(run, now) {
  if (run.stoppedAt) {
    return "stopped";
  }
  return isAhead(run, run.status, now) ? "scheduled" : run.status;
}

/** Only a launch sends; what other phases have dealt with is done. */
export function successName(phase) {
  return sendsMessages(phase) ? texts.sent : texts.done;
}

export function sendsMessages(phase) {
  return phase === MESSAGES_PHASE;
}

function isAhead({ scheduledFor }, runStatus, now) {
  return runStatus === "queued" && Boolean(scheduledFor) && Date.parse(scheduledFor) > now;
}
