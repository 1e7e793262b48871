// The only place that makes elements: text is always text, links are only followed where they lead
// somewhere safe, and what is drawn again keeps the elements that stay, with their focus.

const HIDDEN_FRAME_MS = 500;
const SVG = "http://www.w3.org/2000/svg";
const LINKS = new Set(["href", "src", "action"]);
const SAFE_LINK = /^(#|\/(?![/\\\s])|https?:\/\/|mailto:)/i;

/** What each element listens to; one dispatcher per element, so that a redraw can swap handlers. */
const handlers = new WeakMap();
const styles = new WeakMap();

export function h(tag, attributes, ...children) {
  return build(document.createElement(tag), attributes, children);
}

/** The same for SVG. */
export function s(tag, attributes, ...children) {
  return build(document.createElementNS(SVG, tag), attributes, children);
}

export function isSafeLink(url) {
  return SAFE_LINK.test(url);
}

function build(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    set(element, name, value);
  }
  append(element, children);
  return element;
}

function set(element, name, value) {
  if (value === null || value === undefined || value === false) {
    return;
  }
  if (name.startsWith("on")) {
    listen(element, name.slice(2), value);
  } else if (name === "style") {
    setStyle(element, value);
  } else if (name === "value" || name === "checked") {
    element[name] = value;
  } else if (!LINKS.has(name) || isSafeLink(String(value))) {
    element.setAttribute(name, value === true ? "" : String(value));
  }
}

function append(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child !== null && child !== undefined && child !== false) {
      element.append(child instanceof Node ? child : String(child));
    }
  }
}

function listen(element, type, handler) {
  let mine = handlers.get(element);
  if (!mine) {
    mine = {};
    handlers.set(element, mine);
  }
  if (!(type in mine)) {
    element.addEventListener(type, dispatch);
  }
  mine[type] = handler;
}

function dispatch(event) {
  handlers.get(event.currentTarget)?.[event.type]?.(event);
}

/** Through the object model, which the Content-Security-Policy allows, and not as an attribute. */
function setStyle(element, wanted) {
  const before = styles.get(element) ?? {};
  for (const name of Object.keys(before)) {
    if (!(name in wanted)) {
      element.style.removeProperty(name);
    }
  }
  for (const [name, value] of Object.entries(wanted)) {
    if (before[name] !== value) {
      element.style.setProperty(name, value);
    }
  }
  styles.set(element, wanted);
}

/** However often it is asked for, drawn once a frame; now and then where nobody looks. */
export function oncePerFrame(draw) {
  let isDue = false;
  return () => {
    if (isDue) {
      return;
    }
    isDue = true;
    const drawn = () => {
      isDue = false;
      draw();
    };
    if (document.hidden) {
      setTimeout(drawn, HIDDEN_FRAME_MS);
    } else {
      requestAnimationFrame(drawn);
    }
  };
}

/**
 * Make the container's content this; elements of the same kind and place, or key, stay. What is
 * inside an element with data-keep is its own business, such as a form that is being filled in.
 */
export function render(container, ...children) {
  const holder = document.createElement(container.localName);
  append(holder, children);
  morphChildren(container, holder);
  return container;
}

function morphChildren(old, wanted) {
  const keyed = new Map();
  for (const child of old.children) {
    if (child.dataset?.key) {
      keyed.set(child.dataset.key, child);
    }
  }
  let place = old.firstChild;
  for (const child of [...wanted.childNodes]) {
    const key = child.dataset?.key;
    const match = key ? keyed.get(key) : place;
    if (match && isSame(match, child) && (key || !match.dataset?.key)) {
      if (match === place) {
        place = place.nextSibling;
      } else {
        old.insertBefore(match, place);
      }
      morph(match, child);
    } else {
      old.insertBefore(child, place);
    }
  }
  while (place) {
    const next = place.nextSibling;
    place.remove();
    place = next;
  }
}

function isSame(old, wanted) {
  return old.nodeType === wanted.nodeType && old.nodeName === wanted.nodeName;
}

function morph(old, wanted) {
  if (old.nodeType !== Node.ELEMENT_NODE) {
    if (old.data !== wanted.data) {
      old.data = wanted.data;
    }
    return;
  }
  if (old.isEqualNode(wanted) && !handlers.has(wanted) && !wanted.querySelector("*")) {
    setStyle(old, styles.get(wanted) ?? {});
    return;
  }
  morphAttributes(old, wanted);
  setStyle(old, styles.get(wanted) ?? {});
  const fresh = handlers.get(wanted) ?? {};
  for (const type of Object.keys(handlers.get(old) ?? {})) {
    if (!(type in fresh)) {
      handlers.get(old)[type] = undefined;
    }
  }
  for (const [type, handler] of Object.entries(fresh)) {
    listen(old, type, handler);
  }
  if (wanted.type === "checkbox" && old.checked !== wanted.checked) {
    old.checked = wanted.checked;
  }
  if (!("keep" in wanted.dataset)) {
    morphChildren(old, wanted);
  }
}

function morphAttributes(old, wanted) {
  for (const { name } of [...old.attributes]) {
    if (name !== "style" && name !== "open" && !wanted.hasAttribute(name)) {
      old.removeAttribute(name);
    }
  }
  for (const { name, value } of [...wanted.attributes]) {
    if (name !== "style" && old.getAttribute(name) !== value) {
      old.setAttribute(name, value);
    }
  }
}
