// An address that names no page.

import { render } from "../dom.js";
import { linkButton } from "../parts/controls.js";
import { empty } from "../parts/feedback.js";
import { missing as texts } from "../texts/frame.js";

export async function show({ main, frame }) {
  frame.head({ title: texts.notFound });
  render(main, empty("info", texts.noSuchPage, texts.noSuchPageHint,
    linkButton(texts.goToCampaigns, "#/campaigns")));
}
