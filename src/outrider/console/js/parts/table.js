// Tables that page by cursor: never more rows than one page has.

import { h } from "../dom.js";
import { linkButton } from "./controls.js";
import { table as texts } from "../texts/parts.js";

/**
 * columns: [{name, of: row => content, kind: "number" | "name" | "actions"}]
 * key: row => text that stays the same for a row.
 */
export function table(label, columns, rows, key) {
  return h(
    "div",
    { class: "table-wrap", tabindex: 0, role: "region", "aria-label": label },
    h(
      "table",
      { class: "table" },
      h("thead", {}, h("tr", {}, columns.map((column) =>
        h("th", { scope: "col", class: column.kind },
          column.name || h("span", { class: "for-readers" }, column.label ?? texts.actions))))),
      h("tbody", {}, rows.map((row) =>
        h("tr", { "data-key": key(row) }, columns.map((column) =>
          h("td", { class: column.kind }, column.of(row)))))),
    ),
  );
}

/** Links, so that every page of a list has an address of its own. */
export function pager(shown, hasBefore, firstLink, nextLink) {
  if (!hasBefore && !nextLink) {
    return null;
  }
  return h(
    "nav",
    { class: "pager", "aria-label": texts.pages },
    h("span", {}, shown),
    h(
      "div",
      { class: "button-row" },
      hasBefore && linkButton(texts.firstPage, firstLink, { look: "small" }),
      nextLink && linkButton(texts.nextPage, nextLink, { look: "small", "data-next": true }),
    ),
  );
}

export function facts(...pairs) {
  return h(
    "dl",
    { class: "facts" },
    pairs.filter(Boolean).map(([name, value]) =>
      h("div", {}, h("dt", {}, name), h("dd", {}, value ?? "–"))),
  );
}

export function card(heading, content, ...actions) {
  return h(
    "section",
    { class: "card" },
    heading && h("div", { class: "card-head" }, h("h2", {}, heading), actions),
    content,
  );
}

export function sentences(lines) {
  return h("ul", { class: "sentences" }, lines.map((line) => h("li", {}, line)));
}
