import assert from "node:assert/strict";
import { test } from "node:test";
import { isFault, marked, outageOf, runbookLink } from "../../src/outrider/console/js/state/blockers.js";

test("commands and timestamps inside a sentence are told from its words", () => {
  assert.deepEqual(marked("Due at 2026-11-18T01:36:28.341237Z. Start one with `outrider work`."), [
    { text: "Due at ", kind: "words" },
    { text: "2026-11-18T01:36:28.341237Z", kind: "timestamp" },
    { text: ". Start one with ", kind: "words" },
    { text: "outrider work", kind: "command" },
    { text: ".", kind: "words" },
  ]);
  assert.deepEqual(marked("`a`"), [{ text: "a", kind: "command" }]);
  assert.deepEqual(marked("Nothing to do."), [{ text: "Nothing to do.", kind: "words" }]);
});

test("a code leads to its section of the runbook", () => {
  assert.equal(runbookLink("TARGET_DOWN"), "/console/runbook.html#target_down");
  assert.equal(runbookLink("IN_DOUBT"), "/console/runbook.html#doubts_waiting");
});

test("what somebody decided is no fault", () => {
  assert.ok(isFault({ code: "TARGET_DOWN" }));
  assert.ok(!isFault({ code: "PAUSED" }));
  assert.ok(!isFault({ code: "SCHEDULED" }));
});

test("only an error that names blockers is an outage", () => {
  const blockers = [{ code: "DATABASE_DOWN" }];
  assert.deepEqual(outageOf({ error: { blockers } }), blockers);
  assert.equal(outageOf({ error: {} }), null);
  assert.equal(outageOf(new Error("no answer")), null);
});
