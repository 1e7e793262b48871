import assert from "node:assert/strict";
import { test } from "node:test";
import * as format from "../../src/outrider/console/js/state/format.js";
import { makeHash, parseHash } from "../../src/outrider/console/js/state/hash.js";
import * as throughput from "../../src/outrider/console/js/state/throughput.js";

test("numbers are grouped, or shortened without rounding up", () => {
  assert.equal(format.count(1234567), "1,234,567");
  assert.deepEqual([999, 1250, 99999, 999_999, 1e6].map(format.compact),
    ["999", "1.2k", "99.9k", "999k", "1M"]);
});

test("a percentage is whole only when all of it is there", () => {
  assert.deepEqual([0, 0.2, 12.9, 99.99, 100].map(format.percentage),
    ["0\u00a0%", "<1\u00a0%", "12\u00a0%", "99.9\u00a0%", "100\u00a0%"]);
});

test("durations have two units at most, and none that is nothing", () => {
  assert.deepEqual([12, 1500, 5000, 65_000, 300_000, 3_720_000, 90_000_000].map(format.duration),
    ["12 ms", "1.5 s", "5 s", "1 min 5 s", "5 min", "1 h 2 min", "1 d 1 h"]);
});

test("names of phases are words", () => {
  assert.deepEqual(["audience_import", "dns_validation", "launch"].map(format.title),
    ["Audience import", "DNS validation", "Launch"]);
});

test("moments are told from now, and exactly in a zone", () => {
  const now = Date.parse("2026-03-05T12:00:00Z");
  assert.equal(format.relative("2026-03-05T11:57:00Z", now), "3 min ago");
  assert.equal(format.relative("2026-03-05T14:00:00Z", now), "in 2 h");
  assert.equal(format.relative("2026-03-04T11:00:00Z", now), "1 day ago");
  assert.equal(format.absolute("2026-03-05T14:03:07.123Z", "utc"), "5 Mar 2026, 14:03:07 UTC");
  assert.equal(format.absolute("no moment", "utc"), "–");
});

test("rates and sizes are told in fitting units", () => {
  assert.deepEqual([0, 0.5, 12.34, 1234.5].map(format.rate), ["0/s", "30.0/min", "12.3/s",
    "1,235/s"]);
  assert.deepEqual([12, 1500, 2_500_000].map(format.bytes), ["12 B", "1.5 kB", "2.5 MB"]);
});

test("a page's address can be written and read again", () => {
  const hash = makeHash("runs", "a/b c", { status: "failed", after: null });
  assert.equal(hash, "#/runs/a%2Fb%20c?status=failed");
  assert.deepEqual(parseHash(hash), { page: "runs", id: "a/b c", query: { status: "failed" } });
  assert.deepEqual(parseHash(""), { page: "campaigns", id: null, query: {} });
});

test("an address that is spelt wrongly is read as it is", () => {
  assert.equal(parseHash("#/runs/%E0%A4%A").id, "%E0%A4%A");
});

test("a rate follows from what ended, and begins anew with another run", () => {
  let samples = [];
  for (const [at, ended] of [[0, 0], [1000, 100], [2000, 300]]) {
    samples = throughput.addSample(samples, { at, ended, sent: ended, failed: 0, skipped: 0 });
  }
  const { buckets, from } = throughput.throughputOf(samples);
  assert.deepEqual(buckets.slice(-3).map((each) => each.sent), [0, 100, 200]);
  assert.equal(buckets.length, throughput.SPANS_LEAST);
  assert.equal(from, "1969-12-31T23:59:32.000Z");
  assert.equal(throughput.recentRate(samples, 2000), 150);
  assert.equal(throughput.timeLeft(300, 150), 2000);
  assert.equal(throughput.timeLeft(300, 0), null);
  assert.equal(throughput.addSample(samples, { at: 3000, ended: 5 }).length, 1);
});

test("spans of a chart are equal in time, whenever its samples were told", () => {
  const accounting = (sent) => ({ sent, failed: 0, skipped: 0 });
  const samples = [[0, 0], [1_000, 100], [5_000, 500], [6_000, 500]]
    .map(([at, sent]) => throughput.sampleOf(accounting(sent), at));
  const told = throughput.throughputOf(samples);
  assert.deepEqual(told.buckets.slice(-6).map((each) => each.sent), [100, 100, 100, 100, 100, 0]);
  const over = throughput.throughputOf(samples, { isOver: true });
  assert.equal(over.from, new Date(0).toISOString());
  assert.equal(over.to, new Date(6_000).toISOString());
  const items = over.buckets.reduce((sum, each) => sum + (each.sent * 6) / over.buckets.length, 0);
  assert.equal(Math.round(items), 500);
});

test("what the server says in passing is read as a sentence", () => {
  assert.equal(format.sentence("there is no run 7"), "There is no run 7.");
  assert.equal(format.sentence("`outrider run list` shows them"), "`outrider run list` shows them.");
  assert.equal(format.sentence("Not now."), "Not now.");
});
