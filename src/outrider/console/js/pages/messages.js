// A campaign's messages as they were written, and as one recipient would read them.

import { post, segment } from "../api.js";
import { h, render } from "../dom.js";
import { button } from "../parts/controls.js";
import { note, problemNote } from "../parts/feedback.js";
import { tag } from "../parts/pill.js";
import { card } from "../parts/table.js";
import { messages as texts } from "../texts/runs.js";

export function messagesCard(campaignId, messages) {
  return card(
    texts.messages,
    h("div", { class: "card-body stack" }, messages.map((message) =>
      h(
        "details",
        { class: "message", "data-key": message.id },
        h("summary", {}, h("span", { class: "strong" }, message.id), " ", tag(message.channel), " ",
          h("span", { class: "muted small" }, texts.target(message.submissionTarget))),
        message.subject && h("p", { class: "strong breakable" }, message.subject),
        h("pre", { class: "message-body" }, message.body),
        previewer(campaignId, message.id),
      ))),
  );
}

/** Asks for a recipient, or takes the first, and shows what they would read. */
export function previewer(campaignId, messageId) {
  const shown = h("div", {});
  const form = h(
    "form",
    {
      class: "filters",
      onsubmit: async (event) => {
        event.preventDefault();
        const recipientId = new FormData(event.currentTarget).get("recipientId").trim();
        try {
          const path = `/campaigns/${segment(campaignId)}/preview`;
          const body = { messageId, ...(recipientId && { recipientId }) };
          render(shown, preview(await post(path, body)));
        } catch (error) {
          render(shown, problemNote(error));
        }
      },
    },
    h("input", { class: "input search", name: "recipientId", "aria-label": texts.recipientId,
      placeholder: texts.recipientIdHint }),
    button(texts.preview, { type: "submit" }),
  );
  return h("div", { class: "stack tight", "data-keep": true }, form, shown);
}

function preview(found) {
  return h(
    "div",
    { class: "preview" },
    h("div", { class: "muted small breakable" }, texts.to(found.recipientId),
      found.address && ` · ${found.address}`),
    found.skippedBecause && note(texts.wouldBeSkipped(found.skippedBecause), "warn"),
    found.problem && note(found.problem, "bad"),
    found.subject && h("div", { class: "strong breakable" }, found.subject),
    found.body && h("pre", { class: "message-body" }, found.body),
    found.html &&
      h("div", { class: "muted small" }, texts.htmlBody),
  );
}

