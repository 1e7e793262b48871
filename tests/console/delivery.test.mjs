import assert from "node:assert/strict";
import { test } from "node:test";
import { DELIVERIES, deliveryName, reported }
  from "../../src/outrider/console/js/state/delivery.js";

const of = (counts) => ({ ...Object.fromEntries(DELIVERIES.map((each) => [each, 0])), ...counts });

test("what receipts report is shown with what they do not, and adds up", () => {
  const shown = reported(of({ bounced: 2, delivered: 5, unknown: 3 }));
  assert.deepEqual(shown.map(({ state }) => state), ["delivered", "bounced", "unknown"]);
  assert.equal(shown.reduce((sum, { count }) => sum + count, 0), 10);
});

test("where no receipt has arrived, nothing is said", () => {
  assert.deepEqual(reported(of({ unknown: 10 })), []);
  assert.deepEqual(reported(null), []);
  assert.deepEqual(reported(undefined), []);
});

test("every delivery has a name, also as an item spells it", () => {
  assert.ok(DELIVERIES.every((state) => /^[A-Z]/.test(deliveryName(state))));
  assert.equal(deliveryName("opted_out"), deliveryName("optedOut"));
});
