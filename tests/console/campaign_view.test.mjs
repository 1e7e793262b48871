import assert from "node:assert/strict";
import { test } from "node:test";
import * as campaign from "../../src/outrider/console/js/state/campaign_view.js";

const ACCOUNTING = { intended: 100, waiting: 50, inDoubt: 0, sent: 50, failed: 0, skipped: 0 };

function phase(state, progressPercentage = 0) {
  return { state, progressPercentage, runId: "run-1", accounting: ACCOUNTING, reason: null };
}

function snapshot(states = { launch: "in_progress" }, lastSequence = 10) {
  const phases = Object.fromEntries(
    Object.entries(states).map(([name, state]) => [name, phase(state, 50)]),
  );
  return { campaignId: "c", name: "Spring", recipients: 100, phases, lastSequence,
    phaseOrder: Object.keys(states) };
}

function event(type, sequence, payload = {}, name = "launch") {
  return { type, campaignId: "c", phase: name, sequence, timestamp: "2026-03-01T12:00:00Z",
    payload };
}

const progress = (sequence, percentage) =>
  event("campaign_progress", sequence, { progressPercentage: percentage, accounting: ACCOUNTING });

test("a snapshot overwrites everything, even with an older sequence", () => {
  let view = campaign.viewOf(snapshot());
  view = campaign.applyEvent(view, event("phase_paused", 12));
  view = campaign.guess(view, "launch", "resume", "g");
  view = campaign.applySnapshot(view, snapshot({ launch: "failed" }, 5));
  assert.equal(campaign.stateOf(view, "launch"), "failed");
  assert.equal(view.lastSequence, 5);
  assert.deepEqual(view.guesses, {});
});

test("an event at or below the last sequence changes nothing", () => {
  const view = campaign.viewOf(snapshot());
  assert.equal(campaign.applyEvent(view, event("phase_paused", 8)), view);
  assert.equal(campaign.applyEvent(view, event("phase_paused", 10)), view);
});

test("an event of another campaign changes nothing", () => {
  const view = campaign.viewOf(snapshot());
  const other = { ...event("phase_paused", 11), campaignId: "d" };
  assert.equal(campaign.applyEvent(view, other), view);
});

test("each lifecycle event sets its state", () => {
  const expected = { phase_started: "in_progress", phase_paused: "paused",
    phase_resumed: "in_progress", phase_completed: "completed", phase_failed: "failed" };
  for (const [type, state] of Object.entries(expected)) {
    const view = campaign.applyEvent(campaign.viewOf(snapshot()), event(type, 11));
    assert.equal(campaign.stateOf(view, "launch"), state);
    assert.equal(view.lastSequence, 11);
  }
});

test("progress is applied to a phase in progress and never to its state", () => {
  const view = campaign.applyEvent(campaign.viewOf(snapshot()), progress(11, 75));
  assert.equal(view.phases.launch.progressPercentage, 75);
  assert.equal(campaign.stateOf(view, "launch"), "in_progress");
});

test("progress of a phase that is not in progress is ignored", () => {
  for (const state of ["not_started", "paused", "completed", "failed"]) {
    const view = campaign.applyEvent(campaign.viewOf(snapshot({ launch: state })), progress(11, 99));
    assert.equal(view.phases.launch.progressPercentage, 50);
    assert.equal(campaign.stateOf(view, "launch"), state);
    assert.equal(view.lastSequence, 11);
  }
});

test("an event of a kind or phase that nobody knows only moves the sequence", () => {
  let view = campaign.viewOf(snapshot());
  view = campaign.applyEvent(view, event("phase_dreamt", 11));
  view = campaign.applyEvent(view, event("phase_paused", 12, {}, "coda"));
  assert.equal(campaign.stateOf(view, "launch"), "in_progress");
  assert.equal(view.lastSequence, 12);
});

test("a resume keeps the progress, a new start begins at nothing", () => {
  const paused = campaign.viewOf(snapshot({ launch: "paused" }));
  const resumed = campaign.applyEvent(paused, event("phase_resumed", 11));
  assert.equal(resumed.phases.launch.progressPercentage, 50);
  const failed = campaign.viewOf(snapshot({ launch: "failed" }));
  const started = campaign.applyEvent(failed, event("phase_started", 11));
  assert.equal(started.phases.launch.progressPercentage, 0);
});

test("a guess is shown at once, and an event takes its place", () => {
  let view = campaign.guess(campaign.viewOf(snapshot()), "launch", "pause", "g");
  assert.equal(campaign.stateOf(view, "launch"), "paused");
  assert.equal(view.phases.launch.state, "in_progress");
  view = campaign.applyEvent(view, event("phase_failed", 11));
  assert.equal(campaign.stateOf(view, "launch"), "failed");
  assert.equal(campaign.isGuessed(view, "launch"), false);
});

test("a guess that is still to be asked for outlives what is told of the one before it", () => {
  let view = campaign.guess(campaign.viewOf(snapshot()), "launch", "pause", "first");
  view = campaign.guess(view, "launch", "resume", "second", { isQueued: true });
  const told = campaign.applyEvent(view, event("phase_paused", 11));
  assert.equal(campaign.stateOf(told, "launch"), "in_progress");
  assert.equal(told.phases.launch.state, "paused");
  // Sent before the event of the first one has come: that one is not the answer to it either.
  const sent = campaign.sendGuess(view, "launch", "second", 11);
  const late = campaign.applyEvent(sent, event("phase_paused", 11));
  assert.equal(campaign.isGuessed(late, "launch"), true);
  const over = campaign.applyEvent(late, event("phase_failed", 12));
  assert.equal(campaign.stateOf(over, "launch"), "failed");
  assert.equal(campaign.sendGuess(view, "launch", "first", 11), view);
});

test("progress that is not applied is told from progress that is old", () => {
  const paused = campaign.viewOf(snapshot({ launch: "paused" }));
  assert.equal(campaign.ignores(paused, progress(11, 99)), true);
  assert.equal(campaign.ignores(paused, progress(10, 99)), false);
  assert.equal(campaign.ignores(paused, event("phase_resumed", 11)), false);
  assert.equal(campaign.ignores(campaign.viewOf(snapshot()), progress(11, 99)), false);
});

test("progress does not undo a guess", () => {
  let view = campaign.guess(campaign.viewOf(snapshot()), "launch", "pause", "g");
  view = campaign.applyEvent(view, progress(11, 80));
  assert.equal(campaign.stateOf(view, "launch"), "paused");
});

test("a refusal corrects the view to what the server says", () => {
  let view = campaign.guess(campaign.viewOf(snapshot()), "launch", "pause", "g");
  view = campaign.correct(view, "launch", "completed", "g");
  assert.equal(campaign.stateOf(view, "launch"), "completed");
});

test("a refusal that comes after an event does not undo the event", () => {
  let view = campaign.guess(campaign.viewOf(snapshot()), "launch", "pause", "g");
  view = campaign.applyEvent(view, event("phase_failed", 11));
  assert.equal(campaign.correct(view, "launch", "in_progress", "g"), view);
});

test("an answer waits for its event, unless that came before it", () => {
  const answer = { phase: "launch", state: "paused", sequence: 11, changed: true };
  const guessed = campaign.guess(campaign.viewOf(snapshot()), "launch", "pause", "g");
  const answered = campaign.confirmGuess(guessed, answer, "g");
  assert.equal(campaign.isGuessed(answered, "launch"), true);
  const told = campaign.applyEvent(answered, event("phase_paused", 11));
  assert.equal(campaign.isGuessed(told, "launch"), false);
  const toldFirst = campaign.applyEvent(guessed, event("phase_paused", 11));
  assert.equal(campaign.confirmGuess(toldFirst, answer, "g"), toldFirst);
});

test("an answer that nothing changed is the state as it is: no event will come", () => {
  const answer = { phase: "launch", state: "paused", sequence: 9, changed: false };
  let view = campaign.guess(campaign.viewOf(snapshot()), "launch", "pause", "g");
  view = campaign.confirmGuess(view, answer, "g");
  assert.equal(view.phases.launch.state, "paused");
  assert.equal(campaign.isGuessed(view, "launch"), false);
});

test("a request that failed withdraws its own guess and no other", () => {
  let view = campaign.guess(campaign.viewOf(snapshot()), "launch", "pause", "first");
  view = campaign.guess(view, "launch", "stop", "second");
  assert.equal(campaign.withdraw(view, "launch", "first"), view);
  assert.equal(campaign.stateOf(campaign.withdraw(view, "launch", "second"), "launch"),
    "in_progress");
});

test("the control phase is the paused one, else the one in progress, else none", () => {
  const of = (states) => campaign.controlPhaseOf(campaign.viewOf(snapshot(states)));
  assert.equal(of({ a: "in_progress", b: "paused" }), "b");
  assert.equal(of({ a: "completed", b: "in_progress" }), "b");
  assert.equal(of({ a: "completed", b: "not_started" }), null);
});

test("views are never changed in place", () => {
  const before = campaign.viewOf(snapshot());
  const copy = structuredClone(before);
  campaign.applyEvent(campaign.guess(before, "launch", "pause", "g"), event("phase_paused", 11));
  campaign.applyEvent(before, progress(12, 90));
  assert.deepEqual(before, copy);
});

test("what holds a phase up is taken from a snapshot without anything else of it", () => {
  const blockers = [{ code: "TARGET_DOWN", since: "2026-03-01T12:00:00Z", message: "m", hint: "h" }];
  const blocked = (state) => {
    const found = snapshot({ launch: state }, 99);
    found.phases.launch.blockers = blockers;
    return found;
  };
  let view = campaign.guess(campaign.viewOf(snapshot()), "launch", "pause", "g");
  view = campaign.applyBlockers(view, blocked("in_progress"));
  assert.deepEqual(view.phases.launch.blockers, blockers);
  assert.equal(view.lastSequence, 10);
  assert.equal(campaign.stateOf(view, "launch"), "paused");
  assert.equal(campaign.applyBlockers(view, blocked("in_progress")), view);
  // A snapshot of another state says nothing about this one.
  const ended = campaign.viewOf(snapshot({ launch: "completed" }));
  assert.equal(campaign.applyBlockers(ended, blocked("in_progress")), ended);
});

test("a change of state leaves behind what held the phase up", () => {
  const found = snapshot();
  found.phases.launch.blockers = [{ code: "NO_WORKER" }];
  const view = campaign.applyEvent(campaign.viewOf(found), event("phase_paused", 11));
  assert.deepEqual(view.phases.launch.blockers, []);
});
