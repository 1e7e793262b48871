// intended = waiting + in doubt + sent + failed + skipped, always: what is drawn adds up too.

import { accounting as texts } from "../texts/campaigns.js";

export const PARTS = Object.freeze(["sent", "waiting", "inDoubt", "failed", "skipped"]);

const PART_NAMES = Object.freeze({
  waiting: texts.waiting,
  inDoubt: texts.inDoubt,
  failed: texts.failed,
  skipped: texts.skipped,
});

/** `success` is what went well: messages are sent, everything else is done. */
export function partName(part, success) {
  return PART_NAMES[part] ?? success;
}

const WHOLE = 1000;

export function addsUp(accounting) {
  return total(accounting) === accounting.intended;
}

export function total(accounting) {
  return PARTS.reduce((sum, part) => sum + accounting[part], 0);
}

export function ended(accounting) {
  return accounting.sent + accounting.failed + accounting.skipped;
}

/** Several accountings as one. */
export function sum(accountings) {
  const all = { intended: 0, waiting: 0, inDoubt: 0, sent: 0, failed: 0, skipped: 0 };
  for (const each of accountings) {
    for (const name of Object.keys(all)) {
      all[name] += each[name];
    }
  }
  return all;
}

/** What a total is now that one of its parts was counted again: each term moves by as much. */
export function moved(whole, before, after) {
  const counts = [whole, before, after].map(({ delivery }) => delivery);
  const delivery = counts.every(Boolean) ? shifted(...counts, Object.keys(counts[0])) : null;
  return { ...whole, ...shifted(whole, before, after, ["intended", ...PARTS]),
    ...(counts[0] && { delivery }) };
}

function shifted(whole, before, after, names) {
  return Object.fromEntries(names.map((name) =>
    [name, whole[name] + after[name] - before[name]]));
}

/**
 * The parts with their share in thousandths: together exactly a thousand, and none that has an item
 * is nothing. What is left over by rounding goes to the largest remainders.
 */
export function shares(accounting) {
  const present = PARTS.filter((part) => accounting[part] > 0);
  const whole = present.reduce((sum, part) => sum + accounting[part], 0);
  if (whole === 0) {
    return [];
  }
  const exact = present.map((part) => (accounting[part] * WHOLE) / whole);
  const rounded = exact.map((share) => Math.max(1, Math.floor(share)));
  let left = WHOLE - rounded.reduce((sum, share) => sum + share, 0);
  const byRemainder = exact
    .map((share, index) => [share - Math.floor(share), index])
    .sort((one, other) => other[0] - one[0]);
  for (const [, index] of byRemainder) {
    if (left > 0) {
      rounded[index] += 1;
      left -= 1;
    }
  }
  if (left < 0) {
    rounded[rounded.indexOf(Math.max(...rounded))] += left;
  }
  return present.map((part, index) => ({
    part,
    count: accounting[part],
    thousandths: rounded[index],
  }));
}
