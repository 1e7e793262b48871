// Ids, shortened to be read and copied whole.

import { h } from "../dom.js";
import { shortId } from "../state/format.js";
import { toast } from "./feedback.js";
import { icon } from "./icons.js";
import { copying as texts } from "../texts/parts.js";

const SHOWN_MS = 1_200;

export function copyButton(text, what = "id") {
  return h(
    "button",
    {
      class: "copy",
      type: "button",
      "aria-label": texts.copy(what),
      title: texts.copy(what),
      onclick: (event) => copy(event.currentTarget, text),
    },
    icon("copy", 13),
  );
}

export function copyableId(id, { link, whole = false, what } = {}) {
  const text = h("span", { class: "mono", title: id }, whole ? id : shortId(id));
  return h(
    "span",
    { class: `copyable ${whole ? "breakable" : "nowrap"}` },
    link ? h("a", { href: link }, text) : text,
    copyButton(id, what),
  );
}

async function copy(button, text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    toast(texts.notAllowed);
    return;
  }
  button.replaceChildren(icon("check", 13));
  button.setAttribute("aria-label", texts.copied);
  setTimeout(() => {
    button.replaceChildren(icon("copy", 13));
    button.setAttribute("aria-label", button.title);
  }, SHOWN_MS);
}
