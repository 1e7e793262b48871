// The address of a page behind the #: a path, and its filters and cursors as a query.

export function parseHash(hash) {
  const [path, query = ""] = hash.replace(/^#\/?/, "").split("?", 2);
  const parts = path.split("/").filter(Boolean).map(decoded);
  const given = {};
  for (const [name, value] of new URLSearchParams(query)) {
    given[name] = value;
  }
  return { page: parts[0] ?? "campaigns", id: parts[1] ?? null, query: given };
}

export function makeHash(page, id = null, query = {}) {
  const path = [page, ...(id === null ? [] : [encodeURIComponent(id)])].join("/");
  const given = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== null && value !== undefined && value !== "") {
      given.set(name, value);
    }
  }
  const text = given.toString();
  return `#/${path}${text ? `?${text}` : ""}`;
}

function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
