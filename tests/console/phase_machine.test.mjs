import assert from "node:assert/strict";
import { test } from "node:test";
import * as machine from "../../src/outrider/console/js/state/phase_machine.js";

function actions(states, phase) {
  return machine.actionsOf(phase, Object.keys(states), (name) => states[name]);
}

test("only the transitions of the table are allowed", () => {
  assert.equal(machine.canTransition("in_progress", "paused"), true);
  for (const [from, to] of [["not_started", "paused"], ["not_started", "completed"],
    ["paused", "completed"], ["paused", "failed"], ["completed", "paused"],
    ["failed", "paused"]]) {
    assert.equal(machine.canTransition(from, to), false, `${from} → ${to}`);
  }
});

test("only a run completes or fails its phase", () => {
  for (const state of machine.STATES) {
    assert.equal(machine.allows(state, "complete"), false);
    assert.equal(machine.allows(state, "fail"), false);
  }
});

test("what is under way has the controls, and nothing beside it has any", () => {
  const states = { audience_import: "completed", launch: "in_progress", report: "not_started" };
  assert.deepEqual(actions(states, "launch"), ["pause", "stop"]);
  assert.deepEqual(actions(states, "audience_import"), []);
  assert.deepEqual(actions(states, "report"), []);
});

test("a paused phase resumes or stops", () => {
  assert.deepEqual(actions({ launch: "paused" }, "launch"), ["resume", "stop"]);
});

test("a phase begins where all before it are completed", () => {
  const states = { audience_import: "completed", launch: "not_started", report: "not_started" };
  assert.deepEqual(actions(states, "launch"), ["start"]);
  assert.deepEqual(actions(states, "report"), []);
  assert.deepEqual(actions(states, "audience_import"), ["rerun"]);
  assert.deepEqual(actions({ launch: "failed" }, "launch"), ["retry"]);
});
