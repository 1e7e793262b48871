// Keys of the workspace, shown once when they are made, and who has opted out.

import { get, post, remove, segment } from "../api.js";
import { h, render } from "../dom.js";
import { plural, title } from "../state/format.js";
import { makeHash } from "../state/hash.js";
import { button, field, select, tabs } from "../parts/controls.js";
import { copyButton, copyableId } from "../parts/copying.js";
import { ask, show as showDialog } from "../parts/dialog.js";
import { empty, failureToast, note } from "../parts/feedback.js";
import { moment } from "../parts/timestamps.js";
import { pill, tag } from "../parts/pill.js";
import { card, pager, table } from "../parts/table.js";
import { settings as texts } from "../texts/frame.js";

const ROWS = 50;
const SCOPES = [["read", texts.readScope], ["operate", texts.operateScope],
  ["admin", texts.adminScope]];
const CHANNELS = ["email", "sms", "push", "whatsapp", "voice"].map((each) => [each, title(each)]);

export async function show(context) {
  const { main, query, frame } = context;
  const tab = query.tab === "suppressions" || !frame.canAdminister ? "suppressions" : "keys";
  const again = () => show(context);
  frame.head({
    title: texts.settings,
    actions: tab === "keys"
      ? button(texts.newKey, { sign: "plus", look: "primary", onclick: () => makeKey(again) })
      : frame.canOperate &&
        button(texts.optOutAddresses, { sign: "plus", look: "primary",
          onclick: () => suppress(again) }),
  });
  const link = (name) => makeHash("settings", null, { tab: name });
  const content = tab === "keys" ? await keysTab(context, again)
    : await suppressionsTab(context, again);
  render(main, tabs(texts.settings, [
    ...(frame.canAdminister ? [["keys", texts.keys, link("keys")]] : []),
    ["suppressions", texts.optOuts, link("suppressions")],
  ], tab), content);
}

async function keysTab({ query, signal }, again) {
  const page = await get("/keys", { after: query.after, limit: ROWS }, { signal });
  const link = (after) => makeHash("settings", null, { tab: "keys", after });
  return card(null, page.items.length === 0
    ? empty("key", texts.noKeys, texts.noKeysHint)
    : [table(texts.keys, [
      { name: texts.name, kind: "name", of: (key) => h("span", { class: "strong breakable" },
        key.name) },
      { name: texts.scopes, of: (key) => h("div", { class: "button-row" }, key.scopes.map(tag)) },
      { name: texts.state, of: (key) => (key.revokedAt ? pill("revoked")
        : pill("completed", { words: texts.active })) },
      { name: texts.id, of: (key) => copyableId(key.id, { what: texts.keyId }) },
      { name: texts.created, kind: "number", of: (key) => moment(key.createdAt) },
      { name: "", kind: "actions", of: (key) => (key.revokedAt ? moment(key.revokedAt)
        : button(texts.revoke, { look: "small danger", "aria-label": texts.revokeOne(key.name),
          onclick: () => revoke(key, again) })) },
    ], page.items, (key) => key.id),
    pager(plural(page.items.length, "key"), Boolean(query.after), link(null),
      page.next && link(page.next))]);
}

async function makeKey(again) {
  const made = await ask({
    heading: texts.newKey,
    content: [
      field(texts.name, { name: "name", required: true, maxlength: 200, placeholder: "ci" }),
      select(texts.scope, SCOPES, { name: "scope", value: "operate" }),
    ],
    confirm: texts.create,
    act: (form) => post("/keys", { name: form.get("name").trim(), scopes: [form.get("scope")] }),
  });
  if (made) {
    await showDialog(texts.shownOnce,
      h("p", {}, texts.shownOnceHint),
      made.key
        ? h("div", { class: "secret" }, h("code", { class: "breakable", "data-secret": true },
          made.key), copyButton(made.key, "key"))
        : note(texts.keyLost, "warn"));
    await again();
  }
}

async function revoke(key, again) {
  const done = await ask({
    heading: texts.revokeHeading(key.name),
    words: texts.revokeHint,
    confirm: texts.revokeConfirm,
    isDanger: true,
    act: () => remove(`/keys/${segment(key.id)}`),
  });
  if (done) {
    await again().catch(failureToast);
  }
}

async function suppressionsTab({ query, signal, frame }, again) {
  const page = await get("/suppressions", { after: query.after, limit: ROWS }, { signal });
  const link = (after) => makeHash("settings", null, { tab: "suppressions", after });
  return card(null, page.items.length === 0
    ? empty("mail", texts.noOptOuts,
      texts.noOptOutsHint)
    : [table(texts.optOuts, [
      { name: texts.address, kind: "name", of: (each) => h("span", { class: "strong breakable" },
        each.address) },
      { name: texts.channel, of: (each) => tag(each.channel) },
      { name: texts.topic, of: (each) => each.topic || texts.everything },
      { name: texts.source, of: (each) => tag(each.source) },
      { name: texts.reason, of: (each) => each.reason },
      { name: texts.transactional, of: (each) =>
        (each.includesTransactional ? texts.transactionalBlocked : texts.transactionalSent) },
      { name: texts.since, kind: "number", of: (each) => moment(each.createdAt) },
      frame.canOperate && { name: "", kind: "actions", of: (each) =>
        button(texts.remove, { look: "small danger", "aria-label": texts.removeOne(each.address),
          onclick: () => unsuppress(each, again) }) },
    ].filter(Boolean), page.items, (each) => `${each.channel} ${each.address} ${each.topic || ""}`),
    pager(plural(page.items.length, "address", "addresses"), Boolean(query.after), link(null),
      page.next && link(page.next))]);
}

async function suppress(again) {
  const done = await ask({
    heading: texts.optOutAddresses,
    content: [
      select(texts.channel, CHANNELS, { name: "channel" }),
      field(texts.addresses, { kind: "textarea", name: "addresses", required: true,
        hint: texts.addressesHint }),
      field(texts.topic, { name: "topic", hint: texts.topicHint }),
      field(texts.reason, { name: "reason", value: "opted_out", required: true }),
    ],
    confirm: texts.optOut,
    act: (form) => post("/suppressions", {
      channel: form.get("channel"),
      addresses: form.get("addresses").split("\n").map((line) => line.trim()).filter(Boolean),
      reason: form.get("reason").trim(),
      topic: form.get("topic").trim() || null,
    }),
  });
  if (done) {
    await again().catch(failureToast);
  }
}

async function unsuppress({ channel, address, topic }, again) {
  const done = await ask({
    heading: texts.removeHeading(address),
    words: texts.removeHint,
    confirm: texts.removeConfirm,
    isDanger: true,
    act: () => remove("/suppressions", { query: { channel, address, ...(topic && { topic }) } }),
  });
  if (done) {
    await again().catch(failureToast);
  }
}
