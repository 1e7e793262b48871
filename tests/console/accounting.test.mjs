import assert from "node:assert/strict";
import { test } from "node:test";
import * as accounting from "../../src/outrider/console/js/state/accounting.js";

const of = (waiting, inDoubt, sent, failed, skipped) => ({
  intended: waiting + inDoubt + sent + failed + skipped, waiting, inDoubt, sent, failed, skipped,
});

test("shares are exactly the whole, and none that has an item is nothing", () => {
  const cases = [of(0, 0, 1, 0, 0), of(1, 1, 1, 1, 1), of(1, 1, 999_998, 0, 0), of(3, 3, 3, 0, 0),
    of(1, 2, 3, 4, 5), of(0, 1, 0, 0, 1_000_000), of(333, 333, 334, 1, 0)];
  for (const each of cases) {
    const shares = accounting.shares(each);
    assert.equal(shares.reduce((sum, { thousandths }) => sum + thousandths, 0), 1000);
    assert.equal(shares.reduce((sum, { count }) => sum + count, 0), each.intended);
    assert.ok(shares.every(({ thousandths }) => thousandths > 0));
  }
});

test("nothing intended has no shares", () => {
  assert.deepEqual(accounting.shares(of(0, 0, 0, 0, 0)), []);
});

test("an accounting that does not add up is noticed", () => {
  assert.equal(accounting.addsUp(of(1, 2, 3, 4, 5)), true);
  assert.equal(accounting.addsUp({ ...of(1, 2, 3, 4, 5), intended: 16 }), false);
});

test("accountings are summed part by part", () => {
  assert.deepEqual(accounting.sum([of(1, 0, 2, 0, 0), of(0, 1, 3, 1, 0)]), of(1, 1, 5, 1, 0));
});

test("what receipts say of a total moves with its part, or is not known", () => {
  const delivery = (delivered, unknown) => ({ delivered, bounced: 1, unknown });
  const whole = { ...of(5, 0, 20, 0, 0), delivery: delivery(9, 10) };
  const before = { ...of(5, 0, 10, 0, 0), delivery: delivery(4, 5) };
  const after = { ...of(0, 0, 15, 0, 0), delivery: delivery(7, 7) };
  const moved = accounting.moved(whole, before, after);
  assert.deepEqual(moved, { ...of(0, 0, 25, 0, 0), delivery: delivery(12, 12) });
  assert.equal(accounting.moved(whole, before, of(0, 0, 15, 0, 0)).delivery, null);
});
