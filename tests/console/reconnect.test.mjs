import assert from "node:assert/strict";
import { test } from "node:test";
import * as reconnect from "../../src/outrider/console/js/state/reconnect.js";

/** Feeds what happened, one after the other; gives the last state and all effects. */
function after(...happened) {
  let state = reconnect.idle();
  const effects = [];
  for (const each of happened) {
    const done = reconnect.step(state, typeof each === "string" ? { type: each } : each);
    state = done.state;
    effects.push(...done.effects);
  }
  return { state, effects, kinds: effects.map((effect) => effect.type) };
}

const event = (sequence) => ({ type: "event", event: { sequence } });

test("the first connection begins behind the page's snapshot and is live at once", () => {
  const { state, kinds } = after("watch", "opened");
  assert.equal(state.phase, "live");
  assert.deepEqual(kinds, ["connect"]);
});

test("after a reconnect a snapshot is fetched before anything is applied", () => {
  const { state, kinds } = after("watch", "opened", "lost", "due", "opened", event(7));
  assert.equal(state.phase, "resyncing");
  assert.deepEqual(kinds, ["connect", "disconnect", "wait", "connect", "fetch_snapshots"]);
  assert.equal(kinds.includes("apply"), false);
});

test("what came while the snapshot was fetched is applied after it, in order", () => {
  const { state, effects } = after(
    "watch", "opened", "lost", "due", "opened", event(7), event(8), "resynced", event(9));
  assert.equal(state.phase, "live");
  const applied = effects.filter((effect) => effect.type === "apply");
  assert.deepEqual(applied.map((effect) => effect.events.map((each) => each.sequence)),
    [[7, 8], [9]]);
});

test("a connection lost while resyncing needs another snapshot, and forgets what it held", () => {
  const { state, kinds } = after(
    "watch", "opened", "lost", "due", "opened", event(7), "lost", "due", "opened");
  assert.equal(state.phase, "resyncing");
  assert.deepEqual(state.held, []);
  assert.equal(kinds.filter((kind) => kind === "fetch_snapshots").length, 2);
});

test("a connection that never opened needs a snapshot too", () => {
  const { state } = after("watch", "lost", "due", "opened");
  assert.equal(state.phase, "resyncing");
});

test("events of a connection that is gone are not applied", () => {
  const { kinds } = after("watch", "opened", "lost", event(7));
  assert.equal(kinds.includes("apply"), false);
});

test("waits double up to a limit, and start over once live", () => {
  assert.deepEqual([1, 2, 3, 4, 5, 6, 40].map((failures) => reconnect.waitMs(failures, 0)),
    [500, 1000, 2000, 4000, 5000, 5000, 5000]);
  assert.equal(reconnect.waitMs(1, 1), 375);
  const { state } = after("watch", "lost", "due", "lost", "due", "opened", "resynced", "lost");
  assert.equal(state.waitMs, 500);
});

test("a second loss while waiting does not wait twice", () => {
  const { kinds } = after("watch", "opened", "lost", "lost");
  assert.equal(kinds.filter((kind) => kind === "wait").length, 1);
});

test("offline waits for the network, and resyncs when it is back", () => {
  const { state, kinds } = after("watch", "opened", "offline", "due", "online", "opened");
  assert.equal(state.phase, "resyncing");
  assert.deepEqual(kinds, ["connect", "disconnect", "connect", "fetch_snapshots"]);
});

test("a page that is left closes its stream, and nothing opens it again", () => {
  const { state, kinds } = after("watch", "opened", "close", "lost", "due", "online");
  assert.equal(state.phase, "idle");
  assert.deepEqual(kinds, ["connect", "disconnect"]);
});
