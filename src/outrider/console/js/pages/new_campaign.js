// A new campaign: what it is called, which phases, what is said, and to whom. Once it is made, its
// recipients are uploaded, and a preview and a dry run say what would happen.

import { get, newKey, post, segment, upload } from "../api.js";
import { h, render } from "../dom.js";
import { bytes, count, percentage, plural, title } from "../state/format.js";
import { makeHash } from "../state/hash.js";
import { button, checkbox, field, linkButton, select } from "../parts/controls.js";
import { empty, note, problemNote } from "../parts/feedback.js";
import { bar } from "../parts/ledger.js";
import { card } from "../parts/table.js";
import { previewer } from "./messages.js";
import { newCampaign as texts } from "../texts/campaigns.js";

const PHASES = [
  ["audience_import", texts.audienceImport, true],
  ["dns_validation", texts.dnsValidation, false],
  ["http_validation", texts.httpValidation, false],
  ["sender_validation", texts.senderValidation, false],
  ["launch", texts.launch, true],
  ["report", texts.report, true],
];
const NDJSON = "application/x-ndjson";
const MEDIA_TYPES = { csv: "text/csv", ndjson: NDJSON, jsonl: NDJSON };
const MESSAGES_MOST = 10;

export async function show(context) {
  const { main, query, frame, signal } = context;
  if (!frame.canOperate) {
    frame.head({ title: texts.newCampaign, crumbs: [[texts.campaigns, "#/campaigns"]] });
    render(main, empty("key", texts.readOnly,
      texts.readOnlyHint,
      linkButton(texts.goToCampaigns, "#/campaigns")));
    return;
  }
  if (query.campaign) {
    await showMade(context);
    return;
  }
  frame.head({ title: texts.newCampaign, crumbs: [[texts.campaigns, "#/campaigns"]] });
  const { targets } = await get("/targets", {}, { signal });
  render(main, targets.length > 0 ? form(targets)
    : empty("targets", texts.noTargets,
      texts.noTargetsHint,
      linkButton(texts.viewTargets, "#/targets")));
}

function form(targets) {
  const problem = h("div", { role: "alert" });
  const messages = h("div", { class: "stack" }, messageFields(targets, 1));
  const submit = button(texts.createCampaign, { type: "submit", look: "primary" });
  let numbered = 1;
  const more = button(texts.addMessage, {
    sign: "plus",
    look: "small",
    onclick: () => {
      if (messages.children.length < MESSAGES_MOST) {
        numbered += 1;
        messages.append(messageFields(targets, numbered));
        messages.lastChild.querySelector("input").focus();
      }
    },
  });
  return h(
    "form",
    {
      class: "form",
      onsubmit: async (event) => {
        event.preventDefault();
        submit.disabled = true;
        try {
          const made = await post("/campaigns", documentOf(event.currentTarget));
          location.hash = makeHash("new", null, { campaign: made.campaignId });
        } catch (error) {
          render(problem, problemNote(error));
          problem.scrollIntoView({ block: "nearest" });
        } finally {
          submit.disabled = false;
        }
      },
    },
    card(texts.details, h("div", { class: "card-body stack" },
      field(texts.name, { name: "name", required: true, maxlength: 200,
        placeholder: texts.nameExample }),
      h("fieldset", { class: "choices" }, h("legend", {}, texts.phasesInThisOrder),
        PHASES.map(([phase, words, isChosen]) =>
          checkbox(title(phase), { hint: words, name: "phase", value: phase,
            checked: isChosen, disabled: phase === "launch" }))),
      h("details", {}, h("summary", { class: "small" }, texts.more),
        h("div", { class: "form-row" },
          field(texts.batchSize, { kind: "number", name: "batchSize", min: 1, value: 500,
            hint: texts.batchSizeHint }),
          field(texts.notBefore, { kind: "datetime-local", name: "scheduledFor",
            hint: texts.notBeforeHint })),
        checkbox(texts.requireApproval, { name: "requireApproval" })))),
    card(texts.messages, h("div", { class: "card-body" }, messages), more),
    problem,
    h("div", { class: "button-row" }, submit,
      h("span", { class: "muted" }, texts.nextStep)),
  );
}

function messageFields(targets, number) {
  const choices = targets.map((target) =>
    [target.submissionTarget, `${target.submissionTarget} (${target.channel})`]);
  return h(
    "fieldset",
    { class: "message stack", "data-message": number },
    h("legend", { class: "for-readers" }, texts.message(number)),
    h("div", { class: "form-row" },
      field(texts.id, { name: "id", required: true,
        value: number === 1 ? "offer" : `message-${number}` }),
      select(texts.target, choices, { name: "target" })),
    field(texts.subject, { name: "subject", hint: texts.subjectHint }),
    field(texts.body, { kind: "textarea", name: "body", required: true, rows: 5,
      placeholder: texts.bodyExample, hint: texts.bodyHint }),
    number > 1 && button(texts.remove, { look: "small danger",
      onclick: (event) => event.currentTarget.closest("fieldset").remove() }),
  );
}

function documentOf(element) {
  const given = new FormData(element);
  const chosen = new Set([...given.getAll("phase"), "launch"]);
  const scheduledFor = given.get("scheduledFor");
  const channelOf = (target) => [...element.querySelectorAll("select[name=target] option")]
    .find((option) => option.value === target).textContent.match(/\((\w+)\)$/)[1];
  const messages = [...element.querySelectorAll("fieldset[data-message]")].map((fields) => {
    const value = (name) => fields.querySelector(`[name=${name}]`).value;
    const subject = value("subject").trim();
    return { id: value("id").trim(), channel: channelOf(value("target")),
      submissionTarget: value("target"), ...(subject && { subject }), body: value("body") };
  });
  return {
    name: given.get("name").trim(),
    phases: PHASES.map(([phase]) => phase).filter((phase) => chosen.has(phase)),
    messages,
    batchSize: Number(given.get("batchSize")),
    requireApproval: given.get("requireApproval") !== null,
    ...(scheduledFor && { scheduledFor: new Date(scheduledFor).toISOString() }),
  };
}

async function showMade(context) {
  const { main, query, frame, signal } = context;
  const path = `/campaigns/${segment(query.campaign)}`;
  const [campaign, { phases }] = await Promise.all([
    get(path, {}, { signal }), get(`${path}/status`, {}, { signal })]);
  const recipients = plural(campaign.recipients, "recipient");
  const isUntouched = !phases.launch?.runId;
  const isImported = campaign.phases.includes("audience_import");
  frame.head({
    title: campaign.name,
    crumbs: [[texts.campaigns, "#/campaigns"], [texts.newCampaign, "#/new"]],
    under: isUntouched ? texts.created(recipients)
      : texts.launched(recipients),
    actions: linkButton(texts.openCampaign, makeHash("campaigns", campaign.campaignId),
      { look: "primary" }),
  });
  render(
    main,
    h(
      "div",
      // Drawn anew each time: what is in it holds on to its own elements.
      { class: "form", "data-key": newKey() },
      card(texts.recipients, h("div", { class: "card-body stack" }, uploader(path, context))),
      campaign.recipients > 0
        ? [card(texts.preview, h("div", { class: "card-body stack" },
          campaign.messages.map((message) =>
          h("div", { class: "stack tight" }, h("div", { class: "strong breakable" }, message.id),
            previewer(campaign.campaignId, message.id))))),
        card(texts.dryRun, dryRunner(path))]
        : isImported && note(texts.importFirst),
    ),
  );
}

function uploader(path, context) {
  const said = h("div", { "aria-live": "polite" });
  const choose = h("input", { type: "file", name: "file", accept: ".csv,.ndjson,.jsonl",
    "aria-label": texts.recipientFile, required: true });
  const submit = button(texts.upload, { type: "submit", sign: "upload" });
  return [
    h(
      "form",
      {
        class: "drop",
        onsubmit: async (event) => {
          event.preventDefault();
          const file = choose.files[0];
          const mediaType = MEDIA_TYPES[file.name.split(".").pop().toLowerCase()];
          if (!mediaType) {
            render(said, note(texts.wrongFileType, "bad"));
            return;
          }
          submit.disabled = true;
          try {
            const done = await upload(`${path}/audience`, file, mediaType,
              (share) => render(said, uploading(file, share)));
            await show(context);
            const where = done.staged ? texts.staged : texts.inAudience;
            render(document.querySelector("[data-uploaded]"),
              note(`${plural(done.recipients, "recipient")} ${where}.`, "good"));
          } catch (error) {
            render(said, problemNote(error));
          } finally {
            submit.disabled = false;
          }
        },
      },
      h("p", { class: "muted" }, texts.fileHint),
      h("div", { class: "button-row" }, choose, submit),
    ),
    said,
    h("div", { "data-uploaded": true, "data-keep": true }),
  ];
}

function uploading(file, share) {
  const sent = Math.round(share * 1000);
  const parts = { intended: 1000, sent, waiting: 1000 - sent, inDoubt: 0, failed: 0, skipped: 0 };
  return h("div", { class: "with-bar" }, bar(parts),
    h("div", { class: "with-bar-words" },
      h("span", {}, share < 1 ? texts.uploading : texts.checking),
      h("span", {}, texts.uploadedShare(percentage(share * 100), bytes(file.size)))));
}

function dryRunner(path) {
  const said = h("div", { class: "stack", "aria-live": "polite" });
  const run = async () => {
    try {
      render(said, dryRun(await post(`${path}/phases/launch/dry-run`, {})));
    } catch (error) {
      render(said, problemNote(error));
    }
  };
  return h("div", { class: "card-body stack" },
    h("div", {}, button(texts.countRecipients, { onclick: run })), said);
}

function dryRun(found) {
  const skipped = Object.entries(found.skipped);
  const all = skipped.reduce((sum, [, number]) => sum + number, 0);
  return [
    h("div", { class: "figures" },
      figure(texts.wouldBeSent, found.wouldSend), figure(texts.wouldFail, found.wouldFail),
      figure(texts.skipped, all),
      figure(texts.sentBefore, found.alreadySent)),
    renderedNote(found),
    skipped.length > 0 && h("ul", {}, skipped.map(([reason, number]) =>
      h("li", { class: "muted" }, `${count(number)} ${reason.replaceAll("_", " ")}`))),
    found.failures.length > 0 && h("ul", { class: "breakable" }, found.failures.map((each) =>
      h("li", {}, texts.failures(count(each.recipients), each.detail,
        each.examples.slice(0, 3).join(", "))))),
  ];
}

/** What the numbers rest on: every message was rendered, or a sample of them. */
function renderedNote({ rendered, wouldSend, wouldFail }) {
  const messages = wouldSend + wouldFail;
  return rendered < messages
    ? note(texts.sample(count(rendered), plural(messages, "message")), "warn")
    : messages > 0 && h("p", { class: "muted small" },
      texts.allRendered(plural(messages, "message")));
}

function figure(words, number) {
  return h("div", {}, h("span", { class: "figure" }, count(number)),
    h("span", { class: "muted small" }, words));
}
