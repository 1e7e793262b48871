// The A/B variants of a launch's messages: what became of each, and the choice of a winner.

import { get, post, segment } from "../api.js";
import { watchBlockers } from "../blocker_watch.js";
import { h } from "../dom.js";
import { count, percentage } from "../state/format.js";
import { ask } from "../parts/dialog.js";
import { button } from "../parts/controls.js";
import { failureToast } from "../parts/feedback.js";
import { pill } from "../parts/pill.js";
import { card, table } from "../parts/table.js";
import { campaignVariants as texts } from "../texts/campaigns.js";

const RATES = ["delivered", "read", "replied"];

/** Asks for the figures of a launch again as long as it may change them. */
export class LaunchVariants {
  #found = null;

  /** `runOf` is the launch's run, or null; `changed` is called with every answer. */
  constructor({ signal, runOf, isUnderWay, changed }) {
    this.signal = signal;
    this.runOf = runOf;
    this.changed = changed;
    watchBlockers({
      signal,
      isWanted: () => runOf() && (isUnderWay() || this.#found?.runId !== runOf()),
      look: () => this.look(),
    });
  }

  async look() {
    const runId = this.runOf();
    if (runId) {
      this.#found = await get(`/runs/${segment(runId)}/variants`, {}, { signal: this.signal });
      this.changed();
    }
  }

  /** A card for each message with variants. */
  cards(canDecide) {
    const found = this.#found?.runId === this.runOf() ? this.#found : null;
    return (found?.messages ?? []).map((message) => card(
      texts.heading(message.messageId),
      h("div", { "data-variants": message.messageId },
        table(texts.heading(message.messageId), this.#columns(message, canDecide),
          message.variants, (each) => each.variant)),
    ));
  }

  #columns(message, canDecide) {
    const shown = RATES.filter((rate) => rate === "delivered"
      || this.#found.rule?.rate === rate || message.variants.some((each) => each.rates[rate] > 0));
    return [
      { name: texts.variant, of: (each) => each.variant },
      { name: texts.items, kind: "number", of: (each) => count(each.items) },
      { name: texts.sent, kind: "number", of: (each) => count(each.sent) },
      ...shown.map((rate) => ({
        name: texts.rates[rate],
        kind: "number",
        of: (each) => percentage(each.rates[rate] * 100),
      })),
      { name: texts.winner, of: (each) => this.#winner(message, each, canDecide) },
    ];
  }

  #winner(message, { variant }, canDecide) {
    if (message.winner) {
      return message.winner.variant === variant
        && pill("completed", { words: texts.chosenBy(message.winner.decidedBy) });
    }
    return canDecide && message.awaitsWinner && button(texts.send, {
      look: "small",
      "data-action": `decide-${variant}`,
      "aria-label": texts.sendOf(variant),
      onclick: (event) => event.detail <= 1 && this.#decide(message.messageId, variant),
    });
  }

  async #decide(messageId, variant) {
    const agreed = await ask({
      heading: texts.sendOf(variant),
      words: texts.hint(messageId),
      confirm: texts.confirm,
      isDanger: true,
    });
    if (!agreed) {
      return;
    }
    try {
      const asked = { signal: "DECIDE", messageId, variant };
      await post(`/runs/${segment(this.runOf())}/signals`, asked);
      await this.look();
    } catch (error) {
      failureToast(error);
    }
  }
}
