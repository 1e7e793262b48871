// What people read of an item's two attempt numbers.

import assert from "node:assert/strict";
import { test } from "node:test";
import { attemptWords } from "../../src/outrider/console/js/parts/words.js";

test("an attempt is the contract's; a repeated call of it is said to be one", () => {
  assert.equal(attemptWords({ contractAttempt: 1, engineAttempt: 1 }), "1");
  assert.equal(attemptWords({ contractAttempt: 2, engineAttempt: 3 }), "2 (call 3)");
  assert.equal(attemptWords({ contractAttempt: 1, engineAttempt: 1234 }), "1 (call 1,234)");
});
