// Buttons and fields, with their labels.

import { h } from "../dom.js";
import { icon } from "./icons.js";

let fields = 0;

export function button(words, { sign, look = "", ...attributes } = {}) {
  const looks = look.split(" ").filter(Boolean).map((each) => `button-${each}`).join(" ");
  return h(
    "button",
    { type: "button", ...attributes, class: `button ${looks}` },
    sign && icon(sign, 15),
    words,
  );
}

export function linkButton(words, href, { sign, look = "", ...attributes } = {}) {
  const looks = look.split(" ").filter(Boolean).map((each) => `button-${each}`).join(" ");
  return h("a", { href, ...attributes, class: `button ${looks}` }, sign && icon(sign, 15), words);
}

/** A labelled input; `kind` is the input's type, or "textarea". */
export function field(label, { kind = "text", hint, problem, code = false, ...attributes } = {}) {
  const id = `field-${(fields += 1)}`;
  const about = hint || problem ? `${id}-about` : null;
  const control = h(kind === "textarea" ? "textarea" : "input", {
    ...attributes,
    id,
    type: kind === "textarea" ? null : kind,
    class: `input ${code ? "input-code" : ""}`,
    "aria-describedby": about,
    "aria-invalid": problem ? "true" : null,
  });
  return h(
    "div",
    { class: "field" },
    h("label", { for: id }, label),
    control,
    about && h("div", { id: about, class: problem ? "field-problem" : "field-hint" },
      problem ?? hint),
  );
}

export function select(label, choices, { hint, isLabelled = true, ...attributes } = {}) {
  const id = `field-${(fields += 1)}`;
  const { value, ...rest } = attributes;
  const control = h(
    "select",
    { ...rest, id, class: "input", "aria-label": isLabelled ? null : label },
    choices.map(([choice, words]) =>
      h("option", { value: choice, selected: choice === value }, words)),
  );
  if (!isLabelled) {
    return control;
  }
  return h(
    "div",
    { class: "field" },
    h("label", { for: id }, label),
    control,
    hint && h("div", { class: "field-hint" }, hint),
  );
}

export function checkbox(label, { hint, ...attributes } = {}) {
  return h(
    "label",
    { class: "check" },
    h("input", { type: "checkbox", ...attributes }),
    h("span", {}, label, hint && h("span", { class: "field-hint" }, ` ${hint}`)),
  );
}

export function segmented(label, choices, chosen, onChoose) {
  return h(
    "div",
    { class: "segmented", role: "group", "aria-label": label },
    choices.map(([value, words, sign]) =>
      h(
        "button",
        {
          type: "button",
          "aria-pressed": String(value === chosen),
          title: words,
          "aria-label": sign ? words : null,
          onclick: () => onChoose(value),
        },
        sign ? icon(sign, 14) : words,
      )),
  );
}

export function tabs(label, choices, chosen) {
  return h(
    "nav",
    { class: "tabs", "aria-label": label },
    choices.map(([value, words, href, count]) =>
      h(
        "a",
        { class: "tab", href, "aria-current": value === chosen ? "true" : null },
        words,
        count !== undefined && count !== null && h("span", { class: "tab-count" }, count),
      )),
  );
}
