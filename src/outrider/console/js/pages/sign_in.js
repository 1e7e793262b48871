// Signing in by key. The key goes to the server once and is kept nowhere here.

import { session } from "../api.js";
import { h, render } from "../dom.js";
import { button, field } from "../parts/controls.js";
import { note } from "../parts/feedback.js";
import { signIn as texts } from "../texts/frame.js";

export function signInPage(words, signedIn) {
  const said = h("div", { role: "alert" }, words && note(words));
  const submit = button(texts.signIn, { type: "submit", look: "primary" });
  const form = h(
    "form",
    {
      class: "stack",
      onsubmit: async (event) => {
        event.preventDefault();
        submit.disabled = true;
        try {
          const found = await session.signIn(new FormData(form).get("key").trim());
          form.reset();
          await signedIn(found);
        } catch (error) {
          const wrong = error.status === 401;
          render(said, note(wrong ? texts.invalidKey : error.message,
            "bad"));
        } finally {
          submit.disabled = false;
        }
      },
    },
    field(texts.apiKey, {
      name: "key",
      kind: "password",
      autocomplete: "current-password",
      required: true,
      placeholder: "outrider_…",
      hint: texts.apiKeyHint,
    }),
    said,
    submit,
  );
  return h(
    "main",
    { class: "sign-in", id: "main", tabindex: "-1" },
    h(
      "div",
      { class: "sign-in-card" },
      h("div", { class: "brand" },
        h("img", { class: "brand-mark", src: "/console/mark.svg", alt: "" }), texts.outrider),
      h("h1", {}, texts.signIn),
      form,
    ),
  );
}
