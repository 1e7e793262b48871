// An address that names no page.

import { render } from "../dom.js";
import { linkButton } from "../parts/controls.js";
import { empty } from "../parts/feedback.js";

export async function show({ main, frame }) {
  frame.head({ title: "Not found" });
  render(main, empty("info", "There is no such page", "The address may be mistyped, or old.",
    linkButton("See the campaigns", "#/campaigns")));
}
