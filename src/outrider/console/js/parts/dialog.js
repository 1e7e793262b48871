// Questions before what cannot be undone, and small forms, in real dialogs: the browser keeps the
// focus inside, Escape closes, and the focus goes back to where it was.

import { h } from "../dom.js";
import { button } from "./controls.js";
import { problemNote } from "./feedback.js";
import { dialog as texts } from "../texts/parts.js";

/** Resolves with what `act` gave, or null where it was cancelled. `act` gets the form's data. */
export function ask({ heading, words, content = [], confirm, isDanger = false, act }) {
  return new Promise((resolve) => {
    const problem = h("div", { role: "alert" });
    const yes = button(confirm, {
      type: "submit",
      look: `primary ${isDanger ? "danger" : ""}`,
    });
    const no = button(texts.cancel, { look: "plain", onclick: () => dialog.close() });
    let answer = null;
    const form = h(
      "form",
      {
        class: "dialog-form",
        onsubmit: async (event) => {
          event.preventDefault();
          yes.disabled = true;
          try {
            answer = (await act?.(new FormData(form))) ?? true;
            dialog.close();
          } catch (error) {
            problem.replaceChildren(problemNote(error));
            yes.disabled = false;
          }
        },
      },
      h("h2", { id: "dialog-heading" }, heading),
      words && h("p", {}, words),
      content,
      problem,
      h("div", { class: "dialog-foot" }, no, yes),
    );
    const dialog = h(
      "dialog",
      {
        class: "dialog",
        "aria-labelledby": "dialog-heading",
        onclose: () => {
          dialog.remove();
          resolve(answer);
        },
      },
      form,
    );
    document.body.append(dialog);
    dialog.showModal();
    (form.querySelector("input, textarea, select") ?? (isDanger ? no : yes)).focus();
  });
}

/** Something to read, until it is closed. */
export function show(heading, ...content) {
  return new Promise((resolve) => {
    const done = button(texts.done, { look: "primary", onclick: () => dialog.close() });
    const dialog = h(
      "dialog",
      {
        class: "dialog",
        "aria-labelledby": "dialog-heading",
        onclose: () => {
          dialog.remove();
          resolve();
        },
      },
      h(
        "div",
        { class: "dialog-form" },
        h("h2", { id: "dialog-heading" }, heading),
        content,
        h("div", { class: "dialog-foot" }, done),
      ),
    );
    document.body.append(dialog);
    dialog.showModal();
    done.focus();
  });
}

export function closeAll() {
  for (const dialog of document.querySelectorAll("dialog[open]")) {
    dialog.close();
  }
}
