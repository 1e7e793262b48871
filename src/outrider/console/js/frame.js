// The frame around every page: navigation, the page's head, and the state of the stream.

import { get } from "./api.js";
import { h, render } from "./dom.js";
import { choose, preference } from "./preferences.js";
import { count } from "./state/format.js";
import { stream } from "./stream.js";
import { button, segmented } from "./parts/controls.js";
import { icon } from "./parts/icons.js";
import { searchForm } from "./pages/search.js";
import { frame as texts } from "./texts/frame.js";

const LINKS = [
  ["campaigns", texts.campaigns, "campaigns"],
  ["events", texts.events, "events"],
  ["intents", texts.intents, "intents"],
  ["doubts", texts.inDoubt, "doubt"],
  ["trouble", texts.problems, "trouble"],
  null,
  ["workflows", texts.workflows, "workflows"],
  ["targets", texts.targets, "targets"],
  ["workers", texts.workers, "workers"],
  ["audit", texts.audit, "audit"],
  ["settings", texts.settings, "settings"],
];
const PARENTS = { runs: "campaigns", items: "campaigns", new: "campaigns" };
const TYPED_IN = "input, textarea, select, [contenteditable]";
const CONNECTIONS = {
  live: texts.live,
  connecting: texts.connecting,
  resyncing: texts.catchingUp,
  offline: texts.offline,
};
const TICK_MS = 1_000;
const UNTOLD_MS = 500;
const UNSETTLED = new Set(["idle", "connecting"]);

export class Frame {
  #shell;
  #nav;
  #head;
  #main;
  #who;
  #signOut;
  #page = null;
  #trouble = null;
  #shown = "idle";
  #tellTimer = null;
  #endings = [];

  constructor(root, who, signOut) {
    this.#who = who;
    this.#signOut = signOut;
    this.#nav = h("nav", { class: "nav", id: "nav", "aria-label": texts.console });
    this.#head = h("header", { class: "page-head" });
    this.#main = h("main", { id: "main", tabindex: "-1" });
    this.#shell = h(
      "div",
      { class: "shell", onclick: (event) => this.#clicked(event) },
      h("div", { class: "top" }, this.#menuButton(), brand(),
        h("a", { class: "button button-plain button-icon", href: "#/search",
          "aria-label": texts.search }, icon("search", 17))),
      this.#nav,
      h("div", { class: "content" }, this.#head, this.#main),
    );
    root.replaceChildren(this.#shell);
    const tick = setInterval(() => this.#shown === "waiting" && this.#drawConnection(), TICK_MS);
    const keys = (event) => this.#pressed(event);
    addEventListener("keydown", keys);
    this.#endings = [
      stream.onStatus(({ phase }) => this.#connectionIs(phase)),
      () => clearInterval(tick),
      () => clearTimeout(this.#tellTimer),
      () => removeEventListener("keydown", keys),
    ];
  }

  /** Somebody signed out: nothing is listened to any more. */
  end() {
    this.#endings.forEach((ending) => ending());
  }

  /** What a page has of the frame until it is left: a late answer must not head another page. */
  of(signal) {
    return {
      canOperate: this.canOperate,
      canAdminister: this.canAdminister,
      head: (headed) => signal.aborted || this.head(headed),
      countTrouble: () => signal.aborted || this.countTrouble(),
    };
  }

  get canOperate() {
    return this.#who.scopes.includes("operate");
  }

  get canAdminister() {
    return this.#who.scopes.includes("admin");
  }

  /** The place where the page of this name draws itself. */
  begin(page) {
    this.#page = page;
    this.#openNav(false);
    this.#drawNav();
    this.countTrouble();
    return this.#main;
  }

  focusPage() {
    scrollTo(0, 0);
    this.#main.focus({ preventScroll: true });
  }

  /** title, crumbs: [[words, link]], beside: what is shown beside the title, actions */
  head(headed) {
    const { title, crumbs = [], beside, actions = [], under } = headed;
    document.title = texts.windowTitle(title);
    render(
      this.#head,
      h(
        "div",
        { class: "page-titles" },
        crumbs.length > 0 && h("nav", { "aria-label": texts.breadcrumb },
          h("ol", { class: "crumbs" },
            crumbs.map(([words, link]) => h("li", {}, h("a", { href: link }, words))))),
        h("div", { class: "title-row" }, h("h1", {}, title), beside),
        under && h("div", { class: "muted small" }, under),
      ),
      h("div", { class: "page-actions" },
        h("span", { class: "connection-place", role: "status", "data-key": "connection",
          "data-keep": true }),
        actions),
    );
    this.#drawConnection();
  }

  /** The numbers beside the links: asked for when a page opens, and when something ended. */
  async countTrouble() {
    try {
      this.#trouble = await get("/trouble");
      this.#drawNav();
    } catch {
      // They are an extra: pages say what is wrong with the server.
    }
  }

  /** "/" leads to the search from everywhere, unless somebody is typing. */
  #pressed(event) {
    if (event.key === "Escape") {
      this.#openNav(false);
    }
    const isTyping = event.target instanceof Element && event.target.closest(TYPED_IN);
    if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || isTyping
      || document.querySelector("dialog[open]")) {
      return;
    }
    event.preventDefault();
    const fields = [...this.#shell.querySelectorAll("input[name=q]")];
    const field = fields.find((each) => each.checkVisibility({ visibilityProperty: true }));
    if (field) {
      field.focus();
      field.select();
    } else {
      location.hash = "#/search";
    }
  }

  #drawNav() {
    const here = PARENTS[this.#page] ?? this.#page;
    render(
      this.#nav,
      brand(),
      searchForm("", { "data-key": "search", "data-keep": true }),
      LINKS.map((link) => (link === null
        ? h("div", { class: "nav-heading" }, texts.setup)
        : this.#link(link, here))),
      this.#foot(),
    );
  }

  #link([page, words, sign], here) {
    const found = this.#trouble ?? {};
    const number = { doubts: found.doubts, events: found.failedEvents,
      trouble: (found.alerts ?? 0) + (found.deadLetters ?? 0) + (found.bypasses ?? 0) }[page];
    return h(
      "a",
      { class: "nav-link", href: `#/${page}`, "aria-current": page === here ? "page" : null },
      icon(sign),
      words,
      number > 0 && h("span", { class: `badge ${page === "doubts" ? "" : "badge-bad"}`,
        title: page === "events" ? texts.failedEvents : null },
        number >= found.most ? `${count(found.most)}+` : count(number)),
    );
  }

  #foot() {
    const { name, scopes, workspace } = this.#who;
    const most = ["admin", "operate", "read"].find((scope) => scopes.includes(scope));
    const draw = (kind) => (value) => {
      choose(kind, value);
      this.#drawNav();
    };
    return h(
      "div",
      { class: "nav-foot" },
      h(
        "div",
        { class: "switches" },
        segmented(texts.theme, [["light", texts.light, "sun"], ["dark", texts.dark, "moon"],
          ["system", texts.system, "screen"]], preference("theme"), draw("theme")),
        segmented(texts.times, [["local", texts.local], ["utc", "UTC"]],
          preference("zone"), draw("zone")),
      ),
      h(
        "div",
        { class: "who" },
        h("div", { class: "who-row" }, h("span", { class: "strong" }, name),
          h("button", { class: "copy", type: "button", title: texts.signOut,
            "aria-label": texts.signOut, onclick: () => this.#signOut() }, icon("exit", 15))),
        h("span", { class: "muted" },
          `${workspace.project} · ${workspace.environment} · `,
          most === "read" ? texts.readOnly : most),
      ),
    );
  }

  #menuButton() {
    return button("", {
      sign: "menu",
      look: "plain icon",
      "aria-label": texts.menu,
      "aria-controls": "nav",
      "aria-expanded": "false",
      onclick: () => this.#openNav(!this.#shell.classList.contains("nav-open")),
    });
  }

  #openNav(isOpen) {
    this.#shell.classList.toggle("nav-open", isOpen);
    this.#shell.querySelector("[aria-controls=nav]").setAttribute("aria-expanded", String(isOpen));
  }

  #clicked(event) {
    if (event.target === this.#shell) {
      this.#openNav(false);
    }
  }

  /** Every page connects again, which is shown only if it takes a while. */
  #connectionIs(phase) {
    if (!UNSETTLED.has(phase)) {
      clearTimeout(this.#tellTimer);
      this.#tellTimer = null;
      this.#shown = phase;
    } else if (this.#tellTimer === null) {
      this.#tellTimer = setTimeout(() => {
        this.#tellTimer = null;
        this.#shown = stream.status.phase;
        this.#drawConnection();
      }, UNTOLD_MS);
    }
    this.#drawConnection();
  }

  #connection() {
    const { phase, seconds } = stream.status;
    const phaseShown = this.#shown;
    const words = phaseShown === "waiting" ? texts.reconnecting(seconds) : CONNECTIONS[phaseShown];
    return words && h(
      "span",
      { class: `connection connection-${phaseShown}`, "data-connection": phase },
      h("span", { class: "connection-dot" }),
      words,
    );
  }

  #drawConnection() {
    const place = this.#head.querySelector(".connection-place");
    if (place) {
      render(place, this.#connection());
    }
  }
}

function brand() {
  return h(
    "a",
    { class: "brand", href: "#/campaigns" },
    h("img", { class: "brand-mark", src: "/console/mark.svg", alt: "" }),
    texts.outrider,
  );
}
