// The accounting as a bar and a legend: the parts always add up to what is intended.

import { h } from "../dom.js";
import { PARTS, addsUp, partName, shares, total } from "../state/accounting.js";
import { deliveryName, reported } from "../state/delivery.js";
import { count, percentage } from "../state/format.js";
import { makeHash } from "../state/hash.js";
import { note } from "./feedback.js";
import { pill } from "./pill.js";
import { ledger as texts } from "../texts/runs.js";

export function bar(accounting, { isLarge = false, success = texts.sent } = {}) {
  const parts = accounting ? shares(accounting) : [];
  return h(
    "div",
    {
      class: `bar ${isLarge ? "bar-large" : ""}`,
      role: "img",
      "aria-label": accounting ? inWords(accounting, success) : texts.nothingCountedYet,
    },
    parts.map(({ part, count: items, thousandths }) =>
      h("div", {
        class: `part part-${part}`,
        "data-key": part,
        title: `${partName(part, success)}: ${count(items)}`,
        style: { width: `${thousandths / 10}%` },
      })),
  );
}

export function inWords(accounting, success = texts.sent) {
  const parts = PARTS.filter((part) => accounting[part] > 0)
    .map((part) => `${count(accounting[part])} ${partName(part, success).toLowerCase()}`);
  return texts.inWords(count(accounting.intended), parts.join(", ") || "none");
}

/** The whole ledger of a phase or run. `success` is the word for what went well. */
export function ledger(accounting, success) {
  const endedShare = accounting.intended === 0 ? 100
    : (100 * (accounting.sent + accounting.failed + accounting.skipped)) / accounting.intended;
  return h(
    "div",
    { class: "ledger" },
    h(
      "div",
      { class: "ledger-head" },
      h("span", { class: "figure", "data-figure": "ended" }, percentage(endedShare)),
      h("span", { class: "muted" }, texts.settled(count(accounting.intended))),
    ),
    bar(accounting, { isLarge: true, success }),
    legend(accounting, success),
    deliveries(accounting.delivery),
    !addsUp(accounting) &&
      h("p", { class: "note note-bad" },
        texts.doesNotAddUp(count(total(accounting)))),
  );
}

/** Where to settle what is in doubt, and that it alone keeps the rest from ending. */
export function doubtsNote({ waiting, inDoubt }, matching) {
  return inDoubt > 0 && note([
    waiting === 0 ? texts.restEnded : "",
    h("a", { href: makeHash("doubts", null, matching) },
      texts.resolveDoubts(count(inDoubt))),
  ], "warn");
}

/** What became of what was sent, where receipts report it; the signs tell them apart too. */
function deliveries(counts) {
  const parts = reported(counts);
  return parts.length > 0 && h(
    "div",
    { class: "ledger-deliveries" },
    h("span", { class: "muted small" }, texts.asReported),
    parts.map(({ state, count: items }) => h("span", { "data-delivery": state },
      pill(state === "optedOut" ? "opted_out" : state,
        { words: texts.delivery(deliveryName(state), count(items)) }))),
  );
}

function legend(accounting, success) {
  return h(
    "dl",
    { class: "legend" },
    entry("intended", texts.intended, accounting.intended, null),
    PARTS.map((part) =>
      entry(part, partName(part, success), accounting[part], accounting.intended)),
  );
}

function entry(part, name, items, whole) {
  const swatch = part === "intended" ? "swatch-intended" : `part part-${part}`;
  return h(
    "div",
    { class: "legend-part", "data-part": part },
    h("dt", {}, h("span", { class: `swatch ${swatch}`, "aria-hidden": "true" }), name),
    h("dd", {},
      count(items),
      whole > 0 && items > 0 &&
        h("span", { class: "muted" }, ` ${percentage((100 * items) / whole)}`)),
  );
}
