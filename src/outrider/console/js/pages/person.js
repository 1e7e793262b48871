// One person's whole story: every message, event, opt-out and receipt of an address, newest first.

import { get, segment } from "../api.js";
import { h, render } from "../dom.js";
import { deliveryName } from "../state/delivery.js";
import { dayOf, plural, title } from "../state/format.js";
import { makeHash } from "../state/hash.js";
import { linkButton } from "../parts/controls.js";
import { empty, note } from "../parts/feedback.js";
import { icon } from "../parts/icons.js";
import { clockTime } from "../parts/timestamps.js";
import { pill, tag } from "../parts/pill.js";
import { card, facts, pager } from "../parts/table.js";
import { reasonWords } from "../parts/words.js";
import { preference } from "../preferences.js";
import { person as texts } from "../texts/runs.js";

const ROWS = 50;
const KINDS = { email: texts.email, phone: texts.phone, push_token: texts.pushToken,
  recipient: texts.recipient };
const SIGNS = { item: "mail", event: "events", receipt: "check", suppression: "stop" };

export async function show({ main, id, query, signal, frame }) {
  if (id === null) {
    location.replace("#/search");
    return;
  }
  const story = await get(`/people/${segment(id)}`, { limit: ROWS, after: query.after },
    { signal });
  frame.head({
    title: story.address,
    crumbs: [[texts.search, makeHash("search", null, { q: id })]],
    beside: tag(KINDS[story.kind]),
    under: story.total > 0 && plural(story.total, "entry", "entries"),
  });
  const link = (after) => makeHash("people", id, { after });
  const optedOut = story.items.filter(({ kind }) => kind === "suppression");
  render(
    main,
    h(
      "div",
      { class: "stack" },
      !story.complete && note(texts.incomplete, "warn"),
      optedOut.length > 0 && !query.after && note(texts.optedOut(optedOut
        .map(({ suppression: { channel, topic } }) => texts.optOutOf(title(channel), topic))
        .join(", ")), "warn"),
      (story.recipientIds.length > 0 || story.addresses.length > 0) &&
        card(texts.known, h("div", { class: "card-body" }, knownFacts(story))),
      card(texts.story, story.items.length === 0
        ? empty("person", texts.nothing, texts.nothingHint,
          linkButton(texts.searchAgain, "#/search"))
        : [h("div", { class: "story" }, days(story.items).map(dayPart)),
          pager(plural(story.items.length, "entry", "entries"), Boolean(query.after), link(null),
            story.next && link(story.next))]),
    ),
  );
}

function knownFacts({ recipientIds, addresses, kind, address }) {
  const people = (names) => h("div", { class: "button-row" }, names.map((name) =>
    h("a", { class: "breakable", href: makeHash("people", name) }, name)));
  const others = recipientIds.filter((each) => !(kind === "recipient" && each === address));
  return facts(
    others.length > 0 && [texts.recipientIds, people(others)],
    addresses.length > 0 && [texts.otherAddresses, people(addresses.map((each) => each.address))],
  );
}

/** [day, its entries], in the order in which they came. */
function days(entries) {
  const found = new Map();
  for (const entry of entries) {
    const day = dayOf(entry.at, preference("zone"));
    found.set(day, [...(found.get(day) ?? []), entry]);
  }
  return [...found];
}

function dayPart([day, entries]) {
  return h("section", {}, h("h3", { class: "story-day" }, day),
    h("ol", { class: "story-entries" }, entries.map(entryRow)));
}

function entryRow(entry) {
  const { heading, state, about } = PARTS[entry.kind](entry[entry.kind]);
  return h(
    "li",
    { class: "story-entry", "data-kind": entry.kind },
    h("span", { class: "story-sign" }, icon(SIGNS[entry.kind])),
    h("div", { class: "story-words" },
      h("div", { class: "story-head" }, heading, state),
      h("div", { class: "muted small breakable" }, about)),
    h("span", { class: "muted small" }, clockTime(entry.at)),
  );
}

const PARTS = {
  item: (item) => ({
    heading: h("a", { class: "strong breakable", href: makeHash("items", item.outboxId) },
      item.campaignName ?? item.eventId ?? texts.singleMessage),
    state: [pill(item.inDoubt ? "in_doubt" : item.status),
      item.delivery.state !== "none" && pill(item.delivery.state,
        { words: deliveryName(item.delivery.state) })],
    about: [texts.message(title(item.channel), item.submissionTarget),
      item.reason && texts.because(reasonWords(item.reason)),
      item.waitsFor && texts.waitsFor(item.waitsFor)],
  }),
  event: (event) => ({
    heading: h("a", { class: "strong breakable", href: makeHash("events", event.eventId) },
      event.trigger),
    state: pill(event.status),
    about: texts.event(event.eventId),
  }),
  receipt: (receipt) => ({
    heading: h("span", { class: "strong" }, deliveryName(receipt.event)),
    state: receipt.keyword && tag(receipt.keyword.toUpperCase()),
    about: [texts.reported(receipt.submissionTarget),
      receipt.text && texts.reply(receipt.text), receipt.reason && texts.because(receipt.reason),
      receipt.outboxId && [" · ", h("a", { href: makeHash("items", receipt.outboxId) },
        texts.itsMessage)]],
  }),
  suppression: (each) => ({
    heading: h("span", { class: "strong" }, texts.optOut),
    state: tag(each.source),
    about: [texts.optOutOf(title(each.channel), each.topic), texts.because(reasonWords(each.reason)),
      each.includesTransactional && texts.everythingBlocked],
  }),
};
