// One search for everything: an address, an id or a name, and whatever it is of.

import { get } from "../api.js";
import { h, render } from "../dom.js";
import { makeHash } from "../state/hash.js";
import { empty, note } from "../parts/feedback.js";
import { icon } from "../parts/icons.js";
import { moment } from "../parts/timestamps.js";
import { card } from "../parts/table.js";
import { search as texts } from "../texts/frame.js";

const KINDS = {
  person: ["people", "person", texts.person],
  campaign: ["campaigns", "campaigns", texts.campaign],
  run: ["runs", "half", texts.run],
  item: ["items", "mail", texts.item],
  event: ["events", "events", texts.event],
  intent: ["intents", "intents", texts.intent],
};

/** The field in the navigation and on the page: it leads to the page's address. */
export function searchForm(query, attributes = {}) {
  return h(
    "form",
    {
      class: "search-form",
      role: "search",
      ...attributes,
      onsubmit: (event) => {
        event.preventDefault();
        const q = new FormData(event.currentTarget).get("q").trim();
        if (q) {
          location.hash = makeHash("search", null, { q });
        }
      },
    },
    icon("search", 15),
    h("input", { class: "input search-input", type: "search", name: "q", value: query ?? "",
      placeholder: texts.placeholder, "aria-label": texts.label, autocomplete: "off",
      spellcheck: "false", "aria-keyshortcuts": "/" }),
    h("kbd", { class: "search-key", "aria-hidden": "true" }, "/"),
  );
}

export async function show({ main, query, signal, frame }) {
  frame.head({ title: texts.search, under: texts.about });
  const form = searchForm(query.q, { class: "search-form search-form-page",
    "data-key": `search ${query.q ?? ""}` });
  if (!query.q) {
    render(main, h("div", { class: "stack" }, form));
    main.querySelector("input").focus();
    return;
  }
  const { items } = await get("/search", { q: query.q }, { signal });
  render(
    main,
    h(
      "div",
      { class: "stack" },
      form,
      items.length === 0
        ? card(null, empty("search", texts.nothing, texts.nothingHint))
        : [h("p", { class: "for-readers", role: "status" }, texts.found(items.length)),
          card(null, h("ul", { class: "hits" }, items.map(hitRow)))],
      items.length > 0 && items.every(({ kind }) => kind === "campaign") && note(texts.onlyNames),
    ),
  );
}

function hitRow(hit) {
  const [page, sign, words] = KINDS[hit.kind];
  return h(
    "li",
    { class: "hit", "data-kind": hit.kind },
    h("span", { class: "hit-sign" }, icon(sign)),
    h("div", {},
      h("a", { class: "strong breakable", href: makeHash(page, hit.id) }, hit.title),
      h("div", { class: "muted small breakable" }, hit.detail ? `${words} · ${hit.detail}`
        : words)),
    h("span", { class: "muted small" }, hit.at && moment(hit.at)),
  );
}
