// What is in doubt: the evidence there is, and how a person settles it, one by one or all at once.

import { get } from "../api.js";
import { h, render } from "../dom.js";
import { resolveMany, resolveOne } from "../resolving.js";
import { count, plural } from "../state/format.js";
import { makeHash } from "../state/hash.js";
import { button, linkButton } from "../parts/controls.js";
import { copyableId } from "../parts/copying.js";
import { empty, failureToast, note, toast } from "../parts/feedback.js";
import { moment } from "../parts/moments.js";
import { tag } from "../parts/pill.js";
import { pager, table } from "../parts/table.js";

const ROWS = 50;
const PROGRESS = {
  SENT_NO_ANSWER: "The request left; no answer came",
  NOT_SENT: "The request did not leave",
  ANSWERED: "It was answered",
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
        const left = done.left > 0 ? ` ${count(done.left)} are left.` : "";
        toast(`${plural(done.resolved, "item")} settled.${left}`);
      }
      frame.countTrouble();
      await show(context);
    }
  };
  const resolve = (matching) => resolveMany(matching).then(again).catch(failureToast);
  const draw = () => {
    frame.head({
      title: "In doubt",
      under: "Calls whose outcome is unknown. They are never sent again silently.",
      actions: frame.canOperate && page.items.length > 0 && [
        chosen.size > 0 && button(`Settle ${count(chosen.size)} chosen`,
          { look: "primary", onclick: () => resolve({ ids: [...chosen] }) }),
        button("Settle all matching", {
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
      note(["Only those of ", query.runId ? "one run." : "one campaign."]),
      linkButton("Show all", "#/doubts", { look: "small" })),
    h(
      "section",
      { class: "card" },
      page.items.length === 0
        ? empty("check", "Nothing is in doubt",
          "Every call that was opened has a known outcome. Where one has not, it is listed here "
            + "with its evidence.", linkButton("See the campaigns", "#/campaigns"))
        : [table("In doubt", columns(frame, chosen, draw, resolve), page.items,
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
      label: "Choose",
      of: (item) => h("input", {
        type: "checkbox",
        "aria-label": `Choose ${item.recipientId}`,
        checked: chosen.has(item.outboxId),
        onchange: (event) => {
          chosen[event.currentTarget.checked ? "add" : "delete"](item.outboxId);
          draw();
        },
      }),
    },
    { name: "Recipient", kind: "name", of: (item) => h("div", {},
      h("a", { class: "strong breakable", href: makeHash("items", item.outboxId) },
        item.recipientId),
      h("div", { class: "muted small breakable" }, item.address ?? "")) },
    { name: "Channel", of: (item) => tag(item.channel) },
    { name: "Provider", of: (item) => item.provider },
    { name: "Evidence", kind: "name", of: (item) => h("div", { class: "small breakable" },
      PROGRESS[item.progress] ?? "The call was opened; its outcome is unknown",
      (item.error ?? item.reason) && h("div", { class: "muted" }, item.error ?? item.reason)) },
    { name: "Reference", of: (item) => copyableId(item.reference, { what: "reference" }) },
    { name: "Attempts", kind: "number", of: (item) => count(item.attempts) },
    { name: "Since", kind: "number", of: (item) => moment(item.doubtedAt) },
    frame.canOperate && { name: "", kind: "actions", of: (item) =>
      button("Resolve", { look: "small", onclick: () => resolve(item),
        "aria-label": `Resolve ${item.recipientId}` }) },
  ].filter(Boolean);
}
