// What is said beside the page's content: toasts, notes, empty places, and that something loads.

import { h } from "../dom.js";
import { sentence } from "../state/format.js";
import { icon } from "./icons.js";
import { feedback as texts } from "../texts/parts.js";

const TOAST_MS = 7_000;
const TOASTS_MOST = 4;

/** Only for what the reader must know and would not see otherwise. */
export function toast(words, { isBad = false } = {}) {
  const holder = document.getElementById("toasts");
  const shown = h(
    "div",
    { class: `toast ${isBad ? "toast-bad" : ""}`, role: isBad ? "alert" : null },
    h("div", {}, words),
    h(
      "button",
      { class: "copy", type: "button", "aria-label": texts.dismiss, onclick: () => shown.remove() },
      icon("cross", 14),
    ),
  );
  holder.append(shown);
  while (holder.children.length > TOASTS_MOST) {
    holder.firstChild.remove();
  }
  setTimeout(() => shown.remove(), TOAST_MS);
}

export function failureToast(error) {
  if (error.name !== "AbortError" && error.status !== 401) {
    toast(sentence(error.message), { isBad: true });
  }
}

export function note(words, kind = "") {
  const sign = { bad: "trouble", warn: "trouble", good: "check" }[kind] ?? "info";
  const look = kind ? `note-${kind}` : "";
  return h("div", { class: `note ${look}` }, icon(sign, 15), h("div", {}, words));
}

/** An error with everything that is wrong, and what to do about it. */
export function problemNote(error) {
  return note(
    [
      h("div", { class: "strong" }, sentence(error.message)),
      error.fields?.length > 0 &&
        h("ul", {}, error.fields.slice(0, 20).map((field) =>
          h("li", {}, h("code", {}, field.path), " ", field.message))),
      error.hint && h("div", {}, sentence(error.hint)),
      error.requestId && h("div", { class: "small" }, texts.request,
        h("code", {}, error.requestId)),
    ],
    "bad",
  );
}

export function empty(sign, heading, words, ...actions) {
  return h(
    "div",
    { class: "empty" },
    h("div", { class: "empty-icon" }, icon(sign, 20)),
    h("h2", {}, heading),
    h("p", {}, words),
    actions.some(Boolean) && h("div", { class: "button-row" }, actions),
  );
}

export function skeleton(rows = 5) {
  const widths = [72, 55, 64, 48, 60];
  return h(
    "div",
    { class: "skeleton-rows", "aria-busy": "true", "aria-label": texts.loading },
    Array.from({ length: rows }, (_, row) =>
      h("div", { class: "skeleton", style: { width: `${widths[row % widths.length]}%` } })),
  );
}
