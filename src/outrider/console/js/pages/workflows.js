// Rules and their steps, the policy around them, and what an event would lead to: a dry run.

import { get, post, put, segment } from "../api.js";
import { h, render } from "../dom.js";
import { duration, plural, title } from "../state/format.js";
import { makeHash } from "../state/hash.js";
import { button, field, linkButton, tabs } from "../parts/controls.js";
import { copyableId } from "../parts/copying.js";
import { empty, failureToast, note, problemNote } from "../parts/feedback.js";
import { moment } from "../parts/moments.js";
import { pill, tag } from "../parts/pill.js";
import { card, facts, pager, sentences, table } from "../parts/table.js";

const ROWS = 50;
const TABS = [["rules", "Rules"], ["dry-run", "Dry run"], ["policy", "Policy"]];
const EXAMPLE_SUBJECT = {
  lead: { id: "lead-1", email: "ada@example.test", phone: "+447700900123" },
};

export async function show(context) {
  const { query, main, frame, id } = context;
  frame.head({
    title: id ? "Rule" : "Workflows",
    crumbs: id ? [["Workflows", "#/workflows"]] : [],
    under: id ? null : "What follows when something happens: a trigger, its rules, their steps.",
  });
  if (id) {
    await showRule(context);
    return;
  }
  const tab = TABS.some(([name]) => name === query.tab) ? query.tab : "rules";
  const head = tabs("Workflows",
    TABS.map(([name, words]) => [name, words, makeHash("workflows", null, { tab: name })]), tab);
  const content = { rules: rulesTab, "dry-run": dryRunTab, policy: policyTab }[tab];
  render(main, head, await content(context));
}

async function rulesTab({ query, signal, frame }) {
  const page = await get("/workflows/rules",
    { trigger: query.trigger, after: query.after, limit: ROWS }, { signal });
  const link = (after) => makeHash("workflows", null, { ...query, after });
  return card(
    null,
    page.items.length === 0
      ? empty("workflows", "No rules yet",
        "Rules are written as one document: `outrider workflow apply FILE`, or PUT /workflows. "
          + "examples/quotes has some.",
        frame.canOperate && linkButton("Try a dry run", "#/workflows?tab=dry-run"))
      : [table("Rules", RULE_COLUMNS, page.items, (rule) => rule.id),
        pager(plural(page.items.length, "rule"), Boolean(query.after), link(null),
          page.next && link(page.next))],
  );
}

const RULE_COLUMNS = [
  { name: "Trigger", kind: "name", of: (rule) => h("a",
    { class: "strong breakable", href: makeHash("workflows", rule.id) }, rule.trigger) },
  { name: "Channel", of: (rule) => tag(rule.channel) },
  { name: "Audience", of: (rule) => rule.audience },
  { name: "State", of: (rule) => (rule.enabled ? pill("completed", { words: "Enabled" })
    : pill("suppressed", { words: "Disabled" })) },
  { name: "Urgent", of: (rule) => (rule.urgent ? tag("urgent") : "") },
  { name: "Updated", kind: "number", of: (rule) => moment(rule.updatedAt) },
];

async function showRule(context) {
  const { id, main, signal, frame } = context;
  const rule = await get(`/workflows/rules/${segment(id)}`, {}, { signal });
  frame.head({
    title: rule.trigger,
    crumbs: [["Workflows", "#/workflows"]],
    beside: rule.enabled ? pill("completed", { words: "Enabled" })
      : pill("suppressed", { words: "Disabled" }),
    under: copyableId(rule.id, { whole: true, what: "rule id" }),
    actions: frame.canAdminister && button(rule.enabled ? "Disable" : "Enable", {
      look: rule.enabled ? "danger" : "primary",
      onclick: () => setEnabled(rule, !rule.enabled).then(() => show(context)).catch(failureToast),
    }),
  });
  render(
    main,
    h(
      "div",
      { class: "stack" },
      card("Rule", h("div", { class: "card-body" }, facts(
        ["Channel", tag(rule.channel)], ["Audience", rule.audience],
        ["Urgent", rule.urgent ? "Waits for no quiet hours" : "No"],
        ["Topic", rule.topic || "None"],
        ["Transactional", rule.transactional ? "Unsubscribing does not stop it" : "No"],
        ["Created", moment(rule.createdAt)], ["Updated", moment(rule.updatedAt)]))),
      card(plural(rule.steps.length, "step"), rule.steps.length === 0
        ? empty("workflows", "No steps", "A rule without steps sends nothing.")
        : h("ol", {}, rule.steps.map(stepRow))),
    ),
  );
}

function setEnabled(rule, enabled) {
  const { trigger, channel, audience, urgent, topic, transactional } = rule;
  return put(`/workflows/rules/${segment(rule.id)}`,
    { trigger, channel, audience, urgent, topic, transactional, enabled });
}

function stepRow(step) {
  return h(
    "li",
    { class: "attempt" },
    h("span", { class: "stage-number" }, step.stepOrder),
    h(
      "div",
      { class: "stack tight" },
      h("div", { class: "button-row" }, tag(step.channel), !step.enabled && tag("disabled"),
        h("span", {}, when(step)),
        h("span", { class: "muted" }, `to ${whom(step.recipientConfig)}`),
        step.submissionTarget && h("span", { class: "muted" }, `by ${step.submissionTarget}`),
        step.digestMinutes && tag(`digest of ${step.digestMinutes} min`)),
      step.subject && h("div", { class: "strong breakable" }, step.subject),
      h("pre", { class: "message-body" }, step.body),
    ),
  );
}

function when(step) {
  if (step.relativeTo) {
    const { path, offsetSeconds } = step.relativeTo;
    const side = offsetSeconds < 0 ? "before" : "after";
    return `${duration(Math.abs(offsetSeconds) * 1000)} ${side} ${path}`;
  }
  return step.delaySeconds ? `after ${duration(step.delaySeconds * 1000)}` : "at once";
}

function whom(config) {
  const people = [
    config.includeLeadContact && "the lead",
    config.includePartner && "the partner",
    config.includeAgent && "the agent",
    ...config.customEmails,
    ...config.customPhones,
  ].filter(Boolean);
  return people.join(", ") || "nobody";
}

async function dryRunTab({ frame }) {
  if (!frame.canOperate) {
    return note("A dry run needs a key with the scope operate.");
  }
  const answer = h("div", { "aria-live": "polite" });
  const form = h(
    "form",
    {
      class: "stack",
      onsubmit: async (event) => {
        event.preventDefault();
        const given = new FormData(form);
        try {
          const asked = { trigger: given.get("trigger").trim(),
            subject: JSON.parse(given.get("subject")),
            variables: JSON.parse(given.get("variables")) };
          render(answer, dryRun(await post("/workflows/dry-run", asked)));
        } catch (error) {
          render(answer, problemNote(error));
        }
      },
    },
    field("Trigger", { name: "trigger", required: true, placeholder: "quote_sent" }),
    field("Subject", { kind: "textarea", code: true, name: "subject", required: true, rows: 6,
      value: JSON.stringify(EXAMPLE_SUBJECT, null, 2),
      hint: "Who it is about, as JSON: lead, partner, agent." }),
    field("Variables", { kind: "textarea", code: true, name: "variables", required: true, rows: 4,
      value: "{}", hint: "What templates may use, as JSON." }),
    h("div", {}, button("See what would follow", { type: "submit", look: "primary" })),
  );
  return h("div", { class: "columns" },
    card("An event", h("div", { class: "card-body" }, form)),
    card("What would follow", h("div", { class: "card-body stack" },
      h("p", { class: "muted" }, "Nothing is written and nothing is sent."), answer)));
}

function dryRun(found) {
  return h(
    "div",
    { class: "stack" },
    found.problem && note(found.problem, "bad"),
    found.sentences.length > 0 ? sentences(found.sentences)
      : note("No rule answers to this trigger: nothing would follow."),
    found.messages.map((message) =>
      h("div", { class: "preview" },
        h("div", { class: "button-row" }, tag(message.channel),
          h("span", { class: "strong breakable" }, message.recipientId),
          h("span", { class: "muted small breakable" }, message.address ?? ""),
          h("span", { class: "muted small" }, "due ", moment(message.dueAt))),
        message.skippedBecause && note(`Skipped: ${message.skippedBecause}.`, "warn"),
        message.waitsFor && note(`Waits for ${message.waitsFor}.`),
        message.subject && h("div", { class: "strong breakable" }, message.subject),
        message.body && h("pre", { class: "message-body" }, message.body))),
    found.untold > 0 && h("p", { class: "muted" }, `${plural(found.untold, "more message")}.`),
  );
}

async function policyTab({ signal }) {
  const policy = await get("/workflows/policy", {}, { signal });
  const hours = (span) => span && `${span.from} to ${span.to}${channels(span)}`;
  const cap = policy.frequencyCap;
  return card("When messages may go", h("div", { class: "card-body stack" },
    facts(
      ["Time zone", policy.timeZone],
      ["Quiet hours", hours(policy.quietHours) ?? "None"],
      ["Sending window", policy.sendingWindow
        ? `${policy.sendingWindow.days.map(title).join(", ")}, ${hours(policy.sendingWindow)}`
        : "Always"],
      ["Frequency cap", cap
        ? `${plural(cap.messages, "message")} per ${cap.perHours} h, then ${cap.whenReached}`
          + channels(cap)
        : "None"],
      ["Retries", policy.retry.summary],
    ),
    h("p", { class: "muted small" }, "It is changed with `outrider workflow apply`, or "
      + "PUT /workflows/policy.")));
}

function channels(section) {
  return section.channels ? ` for ${section.channels.join(", ")}` : "";
}
