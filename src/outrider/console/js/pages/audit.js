// The audit log: who did what, newest first. Nothing in it can be changed.

import { get } from "../api.js";
import { h, render } from "../dom.js";
import { plural } from "../state/format.js";
import { makeHash } from "../state/hash.js";
import { linkButton } from "../parts/controls.js";
import { copyableId } from "../parts/copying.js";
import { empty } from "../parts/feedback.js";
import { exactMoment } from "../parts/timestamps.js";
import { card, pager, table } from "../parts/table.js";
import { audit as texts } from "../texts/operations.js";

const ROWS = 50;
const IN_LINE_CHARACTERS = 120;

export async function show({ main, query, signal, frame }) {
  frame.head({ title: texts.audit, under: texts.about });
  const { campaignId, runId, after } = query;
  const page = await get("/audit", { campaignId, runId, after, limit: ROWS, newestFirst: true },
    { signal });
  const link = (change) => makeHash("audit", null, { ...query, after: null, ...change });
  const isFiltered = Boolean(campaignId || runId);
  render(
    main,
    isFiltered && h("div", { class: "filters" }, texts.only(runId ? texts.oneRun
      : texts.oneCampaign), linkButton(texts.showAll, "#/audit", { look: "small" })),
    card(null, page.items.length === 0
      ? empty("audit", texts.nothing, texts.nothingHint)
      : [table(texts.audit, COLUMNS, page.items, (entry) => entry.id),
        pager(plural(page.items.length, "entry", "entries"), Boolean(after), link({}),
          page.next && link({ after: page.next }))]),
  );
}

const COLUMNS = [
  { name: texts.when, of: (entry) => h("span", { class: "nowrap" },
    exactMoment(entry.createdAt)) },
  { name: texts.what, of: (entry) => h("span", { class: "strong nowrap" }, entry.event) },
  { name: texts.who, kind: "name", of: (entry) => h("span", { class: "breakable" }, entry.actor) },
  { name: texts.on, of: on },
  { name: texts.detail, kind: "name", of: ({ detail }) => h("div", { class: "small reading" },
    details(detail)) },
];

/** In a line where they are short; what is long is unfolded by whoever wants to read it. */
function details(detail) {
  const words = Object.entries(detail).map(([name, value]) =>
    `${name}: ${typeof value === "string" ? value : JSON.stringify(value)}`).join(", ");
  return words.length <= IN_LINE_CHARACTERS ? words
    : h("details", {}, h("summary", { class: "muted" },
      plural(Object.keys(detail).length, "field")),
    h("pre", {}, JSON.stringify(detail, null, 2)));
}

function on({ outboxId, runId }) {
  if (outboxId) {
    return copyableId(outboxId, { link: makeHash("items", outboxId), what: texts.itemId });
  }
  return runId ? copyableId(runId, { link: makeHash("runs", runId), what: texts.runId }) : "–";
}
