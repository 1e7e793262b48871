// What is in doubt: the evidence there is, and how a person settles it, one by one or all at once.

import { get } from "../api.js";
import { h, render } from "../dom.js";
import { resolveMany, resolveOne } from "../resolving.js";
import { count, plural } from "../state/format.js";
import { makeHash } from "../state/hash.js";
import { button, linkButton } from "../parts/controls.js";
import { copyableId } from "../parts/copying.js";
import { empty, failureToast, note, toast } from "../parts/feedback.js";
import { moment } from "../parts/timestamps.js";
import { tag } from "../parts/pill.js";
import { pager, table } from "../parts/table.js";
import { doubts as texts } from "../texts.js";

const ROWS = 50;
const PROGRESS = {
  SENT_NO_ANSWER: texts.sentNoAnswer,
  NOT_SENT: texts.notSent,
  ANSWERED: texts.answered,
};

export async function show(context) {
  const { main, query, signal, frame } = context;
  const { runId, campaignId } = query;
  const page = await get("/doubts", { runId, campaignId, after: query.after, limit: ROWS },
    { signal });
  const chosen = new Set();
  const again = async (done) => {
    if (done) {
      if (done.resolved !== undefined) {
        const left = done.left > 0 ? texts.left(count(done.left)) : "";
        toast(texts.resolved(plural(done.resolved, "item"), left));
      }
      frame.countTrouble();
      await show(context);
    }
  };
  const resolve = (matching) => resolveMany(matching).then(again).catch(failureToast);
  const draw = () => {
    frame.head({
      title: texts.inDoubt,
      under: texts.about,
      actions: frame.canOperate && page.items.length > 0 && [
        chosen.size > 0 && button(texts.resolveSelected(count(chosen.size)),
          { look: "primary", onclick: () => resolve({ ids: [...chosen] }) }),
        button(texts.resolveAllMatching, {
          onclick: () => resolve({ ...(runId && { runId }), ...(campaignId && { campaignId }) }),
        }),
      ],
    });
    render(main, list(page, context, chosen, draw, (item) =>
      resolveOne(item).then(again).catch(failureToast)));
  };
  draw();
}

function list(page, { query, frame }, chosen, draw, resolve) {
  const isFiltered = Boolean(query.runId || query.campaignId);
  const link = (after) => makeHash("doubts", null, { ...query, after });
  return h(
    "div",
    { class: "stack" },
    isFiltered && h("div", { class: "filters" },
      note([texts.showingOnly, query.runId ? texts.oneRun : texts.oneCampaign]),
      linkButton(texts.showAll, "#/doubts", { look: "small" })),
    h(
      "section",
      { class: "card" },
      page.items.length === 0
        ? empty("check", texts.nothingInDoubt,
          texts.nothingInDoubtHint, linkButton(texts.goToCampaigns, "#/campaigns"))
        : [table(texts.inDoubt, columns(frame, chosen, draw, resolve), page.items,
          (item) => item.outboxId),
        pager(plural(page.items.length, "item"), Boolean(query.after), link(null),
          page.next && link(page.next))],
    ),
  );
}

function columns(frame, chosen, draw, resolve) {
  return [
    frame.canOperate && {
      name: "",
      label: texts.select,
      of: (item) => h("input", {
        type: "checkbox",
        "aria-label": texts.selectOne(item.recipientId),
        checked: chosen.has(item.outboxId),
        onchange: (event) => {
          chosen[event.currentTarget.checked ? "add" : "delete"](item.outboxId);
          draw();
        },
      }),
    },
    { name: texts.recipient, kind: "name", of: (item) => h("div", {},
      h("a", { class: "strong breakable", href: makeHash("items", item.outboxId) },
        item.recipientId),
      h("div", { class: "muted small breakable" }, item.address ?? "")) },
    { name: texts.channel, of: (item) => tag(item.channel) },
    { name: texts.provider, of: (item) => item.provider },
    { name: texts.evidence, kind: "name", of: (item) => h("div", { class: "small breakable" },
      PROGRESS[item.progress] ?? texts.outcomeUnknown,
      (item.error ?? item.reason) && h("div", { class: "muted" }, item.error ?? item.reason)) },
    { name: texts.reference, of: (item) => copyableId(item.reference, { what: texts.referenceToCopy }) },
    { name: texts.attempts, kind: "number", of: (item) => count(item.attempts) },
    { name: texts.since, kind: "number", of: (item) => moment(item.doubtedAt) },
    frame.canOperate && { name: "", kind: "actions", of: (item) =>
      button(texts.resolve, { look: "small", onclick: () => resolve(item),
        "aria-label": texts.resolveOne(item.recipientId) }) },
  ].filter(Boolean);
}
