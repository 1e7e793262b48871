// Rules and their steps, the policy around them, and what an event would lead to: a dry run.

import { get, post, put, segment } from "../api.js";
import { h, render } from "../dom.js";
import { duration, plural, title } from "../state/format.js";
import { makeHash } from "../state/hash.js";
import { button, field, linkButton, tabs } from "../parts/controls.js";
import { copyableId } from "../parts/copying.js";
import { empty, failureToast, note, problemNote } from "../parts/feedback.js";
import { moment } from "../parts/timestamps.js";
import { pill, tag } from "../parts/pill.js";
import { card, facts, pager, sentences, table } from "../parts/table.js";
import { workflows as texts } from "../texts/workflows.js";

const ROWS = 50;
const TABS = [["rules", texts.rules], ["dry-run", texts.dryRun], ["policy", texts.policy]];
const EXAMPLE_SUBJECT = {
  lead: { id: "lead-1", email: "ada@example.test", phone: "+447700900123" },
};

export async function show(context) {
  const { query, main, frame, id } = context;
  frame.head({
    title: id ? texts.rule : texts.workflows,
    crumbs: id ? [[texts.workflows, "#/workflows"]] : [],
    under: id ? null : texts.about,
  });
  if (id) {
    await showRule(context);
    return;
  }
  const tab = TABS.some(([name]) => name === query.tab) ? query.tab : "rules";
  const head = tabs(texts.workflows,
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
      ? empty("workflows", texts.noRulesYet,
        texts.noRulesHint,
        frame.canOperate && linkButton(texts.tryDryRun, "#/workflows?tab=dry-run"))
      : [table(texts.rules, RULE_COLUMNS, page.items, (rule) => rule.id),
        pager(plural(page.items.length, "rule"), Boolean(query.after), link(null),
          page.next && link(page.next))],
  );
}

const RULE_COLUMNS = [
  { name: texts.trigger, kind: "name", of: (rule) => h("a",
    { class: "strong breakable", href: makeHash("workflows", rule.id) }, rule.trigger) },
  { name: texts.channel, of: (rule) => tag(rule.channel) },
  { name: texts.audience, of: (rule) => rule.audience },
  { name: texts.state, of: (rule) => (rule.enabled ? pill("completed", { words: texts.enabled })
    : pill("suppressed", { words: texts.disabled })) },
  { name: texts.urgent, of: (rule) => (rule.urgent ? tag("urgent") : "") },
  { name: texts.updated, kind: "number", of: (rule) => moment(rule.updatedAt) },
];

async function showRule(context) {
  const { id, main, signal, frame } = context;
  const rule = await get(`/workflows/rules/${segment(id)}`, {}, { signal });
  frame.head({
    title: rule.trigger,
    crumbs: [[texts.workflows, "#/workflows"]],
    beside: rule.enabled ? pill("completed", { words: texts.enabled })
      : pill("suppressed", { words: texts.disabled }),
    under: copyableId(rule.id, { whole: true, what: texts.ruleId }),
    actions: frame.canAdminister && button(rule.enabled ? texts.disable : texts.enable, {
      look: rule.enabled ? "danger" : "primary",
      onclick: () => setEnabled(rule, !rule.enabled).then(() => show(context)).catch(failureToast),
    }),
  });
  render(
    main,
    h(
      "div",
      { class: "stack" },
      card(texts.rule, h("div", { class: "card-body" }, facts(
        [texts.channel, tag(rule.channel)], [texts.audience, rule.audience],
        [texts.urgent, rule.urgent ? texts.urgentYes : texts.no],
        [texts.topic, rule.topic || texts.none],
        [texts.transactional, rule.transactional ? texts.transactionalYes : texts.no],
        [texts.created, moment(rule.createdAt)], [texts.updated, moment(rule.updatedAt)]))),
      card(plural(rule.steps.length, "step"), rule.steps.length === 0
        ? empty("workflows", texts.noSteps, texts.noStepsHint)
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
        h("span", { class: "muted" }, texts.recipients(whom(step.recipientConfig))),
        step.submissionTarget && h("span", { class: "muted" }, texts.target(step.submissionTarget)),
        step.digestMinutes && tag(texts.digest(step.digestMinutes))),
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
  return step.delaySeconds ? texts.after(duration(step.delaySeconds * 1000)) : texts.immediately;
}

function whom(config) {
  const people = [
    config.includeLeadContact && texts.lead,
    config.includePartner && texts.partner,
    config.includeAgent && texts.agent,
    ...config.customEmails,
    ...config.customPhones,
  ].filter(Boolean);
  return people.join(", ") || "nobody";
}

async function dryRunTab({ frame }) {
  if (!frame.canOperate) {
    return note(texts.readOnly);
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
    field(texts.trigger, { name: "trigger", required: true, placeholder: "quote_sent" }),
    field(texts.subject, { kind: "textarea", code: true, name: "subject", required: true, rows: 6,
      value: JSON.stringify(EXAMPLE_SUBJECT, null, 2),
      hint: texts.subjectHint }),
    field(texts.variables, { kind: "textarea", code: true, name: "variables", required: true,
      rows: 4, value: "{}", hint: texts.variablesHint }),
    h("div", {}, button(texts.runDryRun, { type: "submit", look: "primary" })),
  );
  return h("div", { class: "columns" },
    card(texts.domainEvent, h("div", { class: "card-body" }, form)),
    card(texts.whatWouldHappen, h("div", { class: "card-body stack" },
      h("p", { class: "muted" }, texts.dryRunHint), answer)));
}

function dryRun(found) {
  return h(
    "div",
    { class: "stack" },
    found.problem && note(found.problem, "bad"),
    found.sentences.length > 0 ? sentences(found.sentences)
      : note(texts.noRuleMatches),
    found.messages.map((message) =>
      h("div", { class: "preview" },
        h("div", { class: "button-row" }, tag(message.channel),
          h("span", { class: "strong breakable" }, message.recipientId),
          h("span", { class: "muted small breakable" }, message.address ?? ""),
          h("span", { class: "muted small" }, texts.due, moment(message.dueAt))),
        message.skippedBecause && note(texts.skipped(message.skippedBecause), "warn"),
        message.waitsFor && note(texts.waitsFor(message.waitsFor)),
        message.subject && h("div", { class: "strong breakable" }, message.subject),
        message.body && h("pre", { class: "message-body" }, message.body))),
    found.notShown > 0 && h("p", { class: "muted" }, `${plural(found.notShown, "more message")}.`),
  );
}

async function policyTab({ signal }) {
  const policy = await get("/workflows/policy", {}, { signal });
  const hours = (span) => span && texts.span(span.from, span.to, channels(span));
  const cap = policy.frequencyCap;
  const windows = [policy.sendingWindow ?? []].flat();
  return card(texts.policyHeading, h("div", { class: "card-body stack" },
    facts(
      [texts.timeZone, policy.timeZone],
      [texts.quietHours, hours(policy.quietHours) ?? texts.none],
      [texts.sendingWindow, windows.length
        ? windows.map((each) => `${each.days.map(title).join(", ")}, ${hours(each)}`).join("; ")
        : texts.always],
      [texts.presets, policy.presets.join(", ") || texts.none],
      [texts.exempt, policy.exempt.join(", ") || texts.none],
      [texts.frequencyCap, cap
        ? texts.cap(plural(cap.messages, "message"), cap.perHours, cap.whenReached)
          + channels(cap)
        : texts.none],
      [texts.retries, policy.retry.summary],
    ),
    h("p", { class: "muted small" }, texts.policyHint)));
}

function channels(section) {
  return section.channels ? texts.forChannels(section.channels.join(", ")) : "";
}
