// The buttons of a phase: shown at once, confirmed by the stream, corrected without a fuss.

import { post, segment } from "./api.js";
import { h } from "./dom.js";
import { stateOf } from "./state/campaign_view.js";
import { count, plural, title } from "./state/format.js";
import { actionsOf } from "./state/phase_machine.js";
import { button } from "./parts/controls.js";
import { ask } from "./parts/dialog.js";
import { failureToast } from "./parts/feedback.js";
import { actionLook } from "./parts/words.js";
import { phaseControls as texts } from "./texts/campaigns.js";

const REASONS = {
  another_phase_in_progress: texts.anotherPhaseInProgress,
  another_phase_paused: texts.anotherPhasePaused,
  predecessor_not_completed: texts.predecessorNotCompleted,
};

/** `say` is given the short note of a refusal, to be shown beside the phase. */
export function phaseButtons(live, view, phase, say) {
  const actions = actionsOf(phase, view.phaseOrder, (name) => stateOf(view, name));
  return actions.map((action) => {
    const { words, sign, look } = actionLook(action);
    return button(words, {
      sign,
      look: `small ${look}`,
      "data-action": action,
      // One place for all but stop: the focus stays where Pause becomes Resume.
      "data-key": action === "stop" ? "stop" : "go",
      "aria-label": `${words} ${title(phase)}`,
      // The second click of a double click was meant for what stood there before.
      onclick: (event) => event.detail <= 1 && act(live, view.campaignId, phase, action, say),
    });
  });
}

/** The one thing to do next, where nothing is under way and a phase waits for its turn. */
export function nextButton(live, view, phase, say) {
  return button(texts.start(title(phase)), {
    sign: "play",
    look: "primary",
    "data-action": "start",
    onclick: (event) => event.detail <= 1 && act(live, view.campaignId, phase, "start", say),
  });
}

async function act(live, campaignId, phase, action, say) {
  const view = live.view(campaignId);
  const body = await QUESTIONS[action]?.(view, phase) ?? (action in QUESTIONS ? null : {});
  if (body === null) {
    return;
  }
  say(null);
  try {
    const refusal = await live.control(campaignId, phase, action, body);
    if (refusal) {
      say(refusalWords(refusal, phase));
    }
  } catch (error) {
    failureToast(error);
  }
}

function refusalWords({ error, message }, phase) {
  if (error.current_state) {
    const state = error.current_state.replaceAll("_", " ");
    return texts.alreadyInState(title(phase), state);
  }
  const reason = REASONS[error.reason];
  return reason ? texts.cannotStart(title(phase), reason) : message;
}

/** What cannot be undone is asked for first; each gives the request's body, or null. */
const QUESTIONS = {
  stop: async (view, phase) => {
    const waiting = view.phases[phase].accounting?.waiting ?? 0;
    const agreed = await ask({
      heading: texts.stopHeading(title(phase)),
      words: texts.stopHint(plural(waiting, phase === "launch" ? "message" : "item")),
      confirm: texts.stopConfirm,
      isDanger: true,
    });
    return agreed && {};
  },
  rerun: async (view, phase) => {
    const isLaunch = phase === "launch";
    const expected = isLaunch ? await dryRuns(view.campaignId) : null;
    return ask({
      heading: texts.rerunHeading(title(phase)),
      content: [
        scopeChoice("remainder", texts.remainder, expected?.remainder, true),
        scopeChoice("all", texts.everyone, expected?.all, false),
      ],
      words: isLaunch
        ? texts.rerunHint : null,
      confirm: texts.rerunConfirm,
      isDanger: isLaunch,
      act: async (form) => {
        const scope = form.get("scope");
        return scope === "all" ? { scope, confirm: true } : { scope };
      },
    });
  },
};

function scopeChoice(scope, words, expected, isChosen) {
  return h(
    "label",
    { class: "check" },
    h("input", { type: "radio", name: "scope", value: scope, checked: isChosen }),
    h("span", {}, words,
      expected && h("span", { class: "field-hint" },
        texts.wouldReceive(count(expected.wouldSend)))),
  );
}

async function dryRuns(campaignId) {
  const path = `/campaigns/${segment(campaignId)}/phases/launch/dry-run`;
  try {
    const [remainder, all] = await Promise.all(
      ["remainder", "all"].map((scope) => post(path, { scope })));
    return { remainder, all };
  } catch {
    return null;
  }
}
