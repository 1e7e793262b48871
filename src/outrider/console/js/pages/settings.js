// Keys of the workspace, shown once when they are made, and who has opted out.

import { get, post, remove, segment } from "../api.js";
import { h, render } from "../dom.js";
import { plural, title } from "../state/format.js";
import { makeHash } from "../state/hash.js";
import { button, field, select, tabs } from "../parts/controls.js";
import { copyButton, copyableId } from "../parts/copying.js";
import { ask, show as showDialog } from "../parts/dialog.js";
import { empty, failureToast, note } from "../parts/feedback.js";
import { moment } from "../parts/moments.js";
import { pill, tag } from "../parts/pill.js";
import { card, pager, table } from "../parts/table.js";

const ROWS = 50;
const SCOPES = [["read", "Read: looks"], ["operate", "Operate: also starts, pauses, resolves"],
  ["admin", "Admin: also keys, workflows and the registry"]];
const CHANNELS = ["email", "sms", "push", "whatsapp", "voice"].map((each) => [each, title(each)]);

export async function show(context) {
  const { main, query, frame } = context;
  const tab = query.tab === "suppressions" || !frame.canAdminister ? "suppressions" : "keys";
  const again = () => show(context);
  frame.head({
    title: "Settings",
    actions: tab === "keys"
      ? button("New key", { sign: "plus", look: "primary", onclick: () => makeKey(again) })
      : frame.canOperate &&
        button("Opt out addresses", { sign: "plus", look: "primary",
          onclick: () => suppress(again) }),
  });
  const link = (name) => makeHash("settings", null, { tab: name });
  const content = tab === "keys" ? await keysTab(context, again)
    : await suppressionsTab(context, again);
  render(main, tabs("Settings", [
    ...(frame.canAdminister ? [["keys", "Keys", link("keys")]] : []),
    ["suppressions", "Opt-outs", link("suppressions")],
  ], tab), content);
}

async function keysTab({ query, signal }, again) {
  const page = await get("/keys", { after: query.after, limit: ROWS }, { signal });
  const link = (after) => makeHash("settings", null, { tab: "keys", after });
  return card(null, page.items.length === 0
    ? empty("key", "No keys of its own", "The root key is in use. Make a key for each client, so "
      + "that one can be revoked alone.")
    : [table("Keys", [
      { name: "Name", kind: "name", of: (key) => h("span", { class: "strong breakable" },
        key.name) },
      { name: "Scopes", of: (key) => h("div", { class: "button-row" }, key.scopes.map(tag)) },
      { name: "State", of: (key) => (key.revokedAt ? pill("revoked")
        : pill("completed", { words: "Active" })) },
      { name: "Id", of: (key) => copyableId(key.id, { what: "key id" }) },
      { name: "Created", kind: "number", of: (key) => moment(key.createdAt) },
      { name: "", kind: "actions", of: (key) => (key.revokedAt ? moment(key.revokedAt)
        : button("Revoke", { look: "small danger", "aria-label": `Revoke ${key.name}`,
          onclick: () => revoke(key, again) })) },
    ], page.items, (key) => key.id),
    pager(plural(page.items.length, "key"), Boolean(query.after), link(null),
      page.next && link(page.next))]);
}

async function makeKey(again) {
  const made = await ask({
    heading: "New key",
    content: [
      field("Name", { name: "name", required: true, maxlength: 200, placeholder: "ci" }),
      select("Scope", SCOPES, { name: "scope", value: "operate" }),
    ],
    confirm: "Create",
    act: (form) => post("/keys", { name: form.get("name").trim(), scopes: [form.get("scope")] }),
  });
  if (made) {
    await showDialog("This key is shown once",
      h("p", {}, "Keep it where your client finds it. It cannot be shown again."),
      made.key
        ? h("div", { class: "secret" }, h("code", { class: "breakable", "data-secret": true },
          made.key), copyButton(made.key, "key"))
        : note("The answer was lost on its way. Revoke this key and make another.", "warn"));
    await again();
  }
}

async function revoke(key, again) {
  const done = await ask({
    heading: `Revoke ${key.name}?`,
    words: "Its clients and sessions are refused from now on. This cannot be undone.",
    confirm: "Revoke it",
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
    ? empty("mail", "Nobody has opted out",
      "Addresses that opted out are never written to, whoever asks. Unsubscribe links add to it.")
    : [table("Opt-outs", [
      { name: "Address", kind: "name", of: (each) => h("span", { class: "strong breakable" },
        each.address) },
      { name: "Channel", of: (each) => tag(each.channel) },
      { name: "Topic", of: (each) => each.topic || "Everything" },
      { name: "Source", of: (each) => tag(each.source) },
      { name: "Reason", of: (each) => each.reason },
      { name: "Transactional", of: (each) => (each.includesTransactional ? "Stopped too" : "Sent") },
      { name: "Since", kind: "number", of: (each) => moment(each.createdAt) },
      frame.canOperate && { name: "", kind: "actions", of: (each) =>
        button("Remove", { look: "small danger", "aria-label": `Remove ${each.address}`,
          onclick: () => unsuppress(each, again) }) },
    ].filter(Boolean), page.items, (each) => `${each.channel} ${each.address} ${each.topic || ""}`),
    pager(plural(page.items.length, "address", "addresses"), Boolean(query.after), link(null),
      page.next && link(page.next))]);
}

async function suppress(again) {
  const done = await ask({
    heading: "Opt out addresses",
    content: [
      select("Channel", CHANNELS, { name: "channel" }),
      field("Addresses", { kind: "textarea", name: "addresses", required: true,
        hint: "One a line." }),
      field("Topic", { name: "topic", hint: "Leave empty for everything on the channel." }),
      field("Reason", { name: "reason", value: "opted_out", required: true }),
    ],
    confirm: "Opt out",
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
    heading: `Write to ${address} again?`,
    words: "Only with their consent: they opted out.",
    confirm: "Remove the opt-out",
    isDanger: true,
    act: () => remove("/suppressions", { query: { channel, address, ...(topic && { topic }) } }),
  });
  if (done) {
    await again().catch(failureToast);
  }
}
