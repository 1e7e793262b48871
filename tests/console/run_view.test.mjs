import assert from "node:assert/strict";
import { test } from "node:test";
import * as run from "../../src/outrider/console/js/state/run_view.js";

const events = (...sequences) => sequences.map((runSeq) => ({ runSeq }));
const logged = (view) => view.events.map((event) => event.runSeq);

test("neighbours move the watermark, and repeats do nothing", () => {
  let view = run.applyRunEvents(run.emptyRunView("r"), events(1, 2, 3));
  assert.equal(view.lastEventSeq, 3);
  assert.equal(run.applyRunEvents(view, events(2, 3)), view);
  view = run.applyRunEvents(view, events(3, 4));
  assert.deepEqual(logged(view), [1, 2, 3, 4]);
});

test("a hole makes the view stale, and nothing behind it is applied", () => {
  let view = run.applyRunEvents(run.emptyRunView("r"), events(1, 2, 4, 5));
  assert.equal(view.stale, true);
  assert.equal(view.lastEventSeq, 2);
  view = run.applyRunEvents(view, events(3));
  assert.equal(view.lastEventSeq, 2);
});

test("a snapshot past the hole ends it, and the log goes on behind what was shown", () => {
  let view = run.applyRunEvents(run.emptyRunView("r"), events(1, 2, 4));
  view = run.applyRunSnapshot(view, { status: "RUNNING", lastEventSeq: 3 });
  assert.equal(view.stale, true);
  view = run.applyRunSnapshot(view, { status: "RUNNING", lastEventSeq: 5 });
  assert.equal(view.stale, false);
  view = run.applyRunEvents(view, events(4, 5, 6));
  assert.deepEqual(logged(view), [1, 2, 4, 5, 6]);
  assert.equal(view.lastEventSeq, 6);
});

test("a snapshot older than what is known changes nothing", () => {
  const view = run.applyRunEvents(run.emptyRunView("r"), events(1, 2, 3));
  assert.equal(run.applyRunSnapshot(view, { status: "PENDING", lastEventSeq: 2 }), view);
});

test("the log can begin late, and what was before is put in front", () => {
  let view = run.applyRunSnapshot(run.emptyRunView("r"), { status: "RUNNING", lastEventSeq: 9 });
  view = run.beginLogAfter(view, 7);
  view = run.applyRunEvents(view, events(8, 9, 10));
  assert.deepEqual(logged(view), [8, 9, 10]);
  view = run.prependRunEvents(view, events(6, 7, 8));
  assert.deepEqual(logged(view), [6, 7, 8, 9, 10]);
});

test("a run's results at an event are what its jobs had settled by then", () => {
  const snapshot = { steps: [
    { counts: { sent: 8, failed: 1, skipped: 1 } },
    { counts: null },
    { counts: { sent: 5, failed: 0, skipped: 0 } },
    {},
  ] };
  assert.deepEqual(run.accountingAt(40, snapshot),
    { intended: 40, waiting: 25, inDoubt: 0, sent: 13, failed: 1, skipped: 1 });
  assert.deepEqual(run.accountingAt(3, { steps: [] }),
    { intended: 3, waiting: 3, inDoubt: 0, sent: 0, failed: 0, skipped: 0 });
});
