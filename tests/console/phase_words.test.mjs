// U3: what people read of a stop, of what is scheduled, and of phases that send nothing.

import assert from "node:assert/strict";
import { test } from "node:test";
import { moved, partName } from "../../src/outrider/console/js/state/accounting.js";
import * as campaign from "../../src/outrider/console/js/state/campaign_view.js";
import * as words from "../../src/outrider/console/js/state/phase_words.js";

const NOW = Date.parse("2026-11-17T12:00:00Z");
const AHEAD = "2027-01-01T09:00:00Z";
const COUNTED = { intended: 200, waiting: 200, inDoubt: 0, sent: 0, failed: 0, skipped: 0 };
const WHOLE = { intended: 300, waiting: 200, inDoubt: 0, sent: 100, failed: 0, skipped: 0 };

function found(changes) {
  return { state: "in_progress", reason: null, runStatus: "running", scheduledFor: null,
    progressPercentage: 0, accounting: COUNTED, outcome: WHOLE, runs: 2, runId: "r", ...changes };
}

function viewOf(launch) {
  return campaign.viewOf({ campaignId: "c", name: "n", recipients: 300, lastSequence: 10,
    phaseOrder: ["launch"], phases: { launch } });
}

test("a stop is stopped, and another failure is failed", () => {
  assert.equal(words.shownState(found({ reason: "stopped" }), "failed", NOW), "stopped");
  assert.equal(words.shownState(found({ reason: "run_failed" }), "failed", NOW), "failed");
  assert.equal(words.shownState(found({ reason: "stopped" }), "in_progress", NOW), "in_progress");
});

test("what begins later is scheduled until it begins, unless it is paused", () => {
  const later = found({ runStatus: "queued", scheduledFor: AHEAD });
  assert.equal(words.shownState(later, "in_progress", NOW), "scheduled");
  assert.equal(words.shownState(later, "paused", NOW), "paused");
  assert.equal(words.shownState(later, "in_progress", Date.parse(AHEAD)), "in_progress");
  const begun = found({ runStatus: "running", scheduledFor: AHEAD });
  assert.equal(words.shownState(begun, "in_progress", NOW), "in_progress");
});

test("a run that was stopped is said to be, whatever status it came to", () => {
  assert.equal(words.shownRunState({ status: "partial", stoppedAt: AHEAD }, NOW), "stopped");
  assert.equal(words.shownRunState({ status: "failed", stoppedAt: null }, NOW), "failed");
  const queued = { status: "queued", stoppedAt: null, scheduledFor: AHEAD };
  assert.equal(words.shownRunState(queued, NOW), "scheduled");
});

test("only a launch sends", () => {
  assert.equal(words.successName("launch"), "Sent");
  assert.equal(words.successName("audience_import"), "Done");
  assert.equal(partName("sent", "Done"), "Done");
  assert.equal(partName("failed", "Done"), "Failed");
});

test("a stop that was asked for is shown as one at once", () => {
  const view = campaign.guess(viewOf(found({})), "launch", "stop", "g");
  assert.equal(campaign.shownStateOf(view, "launch", NOW), "stopped");
});

test("the outcome over all runs moves with the latest one", () => {
  const accounting = { ...COUNTED, waiting: 150, sent: 40, failed: 10 };
  const moves = { ...WHOLE, waiting: 150, sent: 140, failed: 10 };
  assert.deepEqual(moved(WHOLE, COUNTED, accounting), moves);
  const event = { type: "campaign_progress", campaignId: "c", phase: "launch", sequence: 11,
    timestamp: AHEAD, payload: { progressPercentage: 25, accounting } };
  assert.deepEqual(campaign.applyEvent(viewOf(found({})), event).phases.launch.outcome, moves);
});
