// Shows what /debug says, each second. Every text goes in as text: nothing from outside is parsed as markup.
"use strict";

const PERIOD_MS = 1000;
/** How many tiles, changes and names are in sight. The others fold. */
const MOST_TILES = 12;
const MOST_CHANGES = 20;
const MOST_NAMES = 8;
/** How many objects of a kind are drawn. The filter finds the others. */
const MOST_OBJECTS = 50;
/** The conditions that report trouble unless they are True. All others report trouble while they are True. */
const SUMMARIES = ["Ready", "SpecValid", "RecordSetReady", "ProviderReady", "FirewallReady"];

const version = document.querySelector("meta[name=flipop-version]").content;
const filter = document.getElementById("filter");
const order = new Intl.Collator("en", { numeric: true }).compare;
/** The last answer, and when it came. */
let last = null;
let lastMs = 0;

/** An element with a class and children; strings become text. */
function element(name, kind, ...children) {
  const made = document.createElement(name);
  if (kind) made.className = kind;
  for (const child of children) if (child !== null && child !== undefined) made.append(child);
  return made;
}

/** Makes a place hold these children. Replaces only what differs, so that focus, selection and a press last. */
function renew(place, children) {
  const before = [...place.childNodes];
  children.forEach((fresh, position) => {
    const old = before[position];
    if (!old) place.append(fresh);
    else if (old.isEqualNode(fresh)) return;
    else if (old.cloneNode(false).isEqualNode(fresh.cloneNode(false)) && fresh.firstChild) renew(old, [...fresh.childNodes]);
    else old.replaceWith(fresh);
  });
  for (const old of before.slice(children.length)) old.remove();
}

function show(id, children) {
  const place = document.getElementById(id);
  const open = [...place.querySelectorAll("details[open]")].map((details) => details.dataset.key);
  const focused = place.contains(document.activeElement) ? document.activeElement.dataset.focus : null;
  for (const fresh of children) {
    for (const details of fresh.querySelectorAll("details")) details.open = open.includes(details.dataset.key);
    if (fresh.localName === "details") fresh.open = open.includes(fresh.dataset.key);
  }
  renew(place, children);
  if (focused && !place.contains(document.activeElement)) {
    const again = [...place.querySelectorAll("[data-focus]")].find((one) => one.dataset.focus === focused);
    if (again) again.focus();
  }
}

function mark(tone, text) {
  return element("span", `mark ${tone}`, text);
}

function none(text) {
  return element("p", "quiet", text);
}

function toneOf(status) {
  return status === "True" ? "good" : status === "False" ? "bad" : "doubt";
}

/** A duration in its largest unit. */
function span(ms) {
  if (ms < 1000) return `${ms} ms`;
  if (ms < 60e3) return `${(ms / 1000).toFixed(1).replace(/\.0$/, "")} s`;
  if (ms < 3600e3) return `${Math.floor(ms / 60e3)} min`;
  return ms < 172800e3 ? `${Math.floor(ms / 3600e3)} h` : `${Math.floor(ms / 86400e3)} d`;
}

/** The time of day. */
function clock(ms) {
  return `${new Date(ms).toISOString().slice(11, 19)} UTC`;
}

/** How long something has lasted, by a time in seconds. */
function lasted(since, now) {
  return span(Math.max(1, Math.floor(now - since)) * 1000);
}

/** Details that stay open or closed, and keep the focus, under their key. */
function fold(title, key, content) {
  const summary = element("summary", "", title);
  summary.dataset.focus = key;
  const details = element("details", "", summary, content);
  details.dataset.key = key;
  return details;
}

/** A list of the first items, and a fold with the others. */
function list(name, kind, items, most, key) {
  const first = element(name, kind, ...items.slice(0, most));
  const rest = items.slice(most);
  return rest.length ? [first, fold(`${rest.length} more`, key, element(name, kind, ...rest))] : [first];
}

/** Names in natural order. Those after the first few fold. */
function names(all, key) {
  const sorted = [...all].sort(order);
  const rest = sorted.slice(MOST_NAMES);
  const text = sorted.slice(0, MOST_NAMES).join(", ");
  return rest.length ? [text, fold(`${rest.length} more`, key, none(rest.join(", ")))] : [text];
}

/** The conditions that report trouble. `Ready` is the first, and always there. */
function told(object) {
  const trouble = ({ type, status }) => (SUMMARIES.includes(type) ? status !== "True" : status === "True");
  const all = (object.conditions || []).filter((one) => one.type === "Ready" || trouble(one));
  return all.sort((one, other) => (other.type === "Ready") - (one.type === "Ready"));
}

/** How urgent an object is: the lower, the further ahead it stands. */
function rank(object) {
  const [ready, ...others] = told(object);
  if ((ready && ready.status === "False") || object.state === "error") return 0;
  if (!ready || ready.status !== "True") return 1;
  return others.length || (object.ips || []).some((ip) => ip.error) ? 2 : 3;
}

function head(object, now) {
  const ready = told(object).find(({ type }) => type === "Ready");
  const since = ready && ready.sinceSeconds ? ` for ${lasted(ready.sinceSeconds, now)}` : "";
  return element(
    "div", "head",
    element("h3", "", `${object.namespace}/${object.name}`),
    ready ? mark(toneOf(ready.status), `Ready: ${ready.status} (${ready.reason})${since}`) : null,
    told(object).some(({ type }) => type === "Paused") ? mark("doubt", "paused") : null,
  );
}

/** A remedy without its Markdown. The targets of its links are pages of the documents. */
function plain(remedy) {
  return remedy.replace(/\[([^\]]*)\]\([^)]*\)/g, "$1").replace(/`/g, "");
}

/** The texts of the conditions, each with its remedy. */
function messages(object) {
  return told(object).map((one) => (one.type === "Ready" && one.status === "True"
    ? none(one.message)
    : element(
      "p", "", element("strong", "", `${one.type} (${one.reason})`), one.message ? `: ${one.message}` : "",
      one.remedy ? element("span", "quiet remedy", plain(one.remedy)) : null,
    )));
}

function grace(pool, node, now) {
  const suspect = (pool.suspects || []).find((one) => one.node === node);
  if (!suspect) return null;
  const whole = Math.max(1, suspect.endsSeconds - suspect.sinceSeconds);
  const left = Math.max(0, suspect.endsSeconds - now);
  const bar = element("progress", "");
  bar.max = whole;
  bar.value = left;
  bar.setAttribute("aria-label", `grace of ${node}`);
  const text = `${suspect.reason} for ${lasted(suspect.sinceSeconds, now)}: grace ends in ${Math.ceil(left)} s`;
  return element("div", "", element("p", "", text), bar);
}

/** Where an address is, or was last seen, and where it goes. */
function place({ node, target, providerID }) {
  return target ? `${node || "no node"} → ${target}` : node || providerID || "on no matching node";
}

function toneOfAddress(pool, ip) {
  if (ip.error) return "bad";
  const suspect = ip.node && (pool.suspects || []).some((one) => one.node === ip.node);
  if (ip.state === "active") return suspect ? "doubt" : "good";
  return ip.state === "in-progress" || ip.state === "disabled" ? "doubt" : "bad";
}

function address(pool, ip, now) {
  const tone = toneOfAddress(pool, ip);
  const name = pool.records && pool.records.addresses.includes(ip.ip) ? `in ${pool.records.name}` : null;
  const since = ip.why ? `${ip.node} ${ip.why}; it lost its match ${lasted(ip.sinceSeconds, now)} ago` : null;
  return element(
    "li", `card ${tone}`,
    element("strong", "", place(ip)),
    element("span", "", ip.ip, " "), mark(tone, ip.state || "unknown"),
    since ? element("p", "", since) : null,
    ip.next || ip.error ? element("p", "", ip.next || ip.error) : null,
    name ? none(name) : null,
    grace(pool, ip.node, now),
  );
}

function addresses(pool, now, key) {
  const good = (ip) => toneOfAddress(pool, ip) === "good";
  const sorted = fitting(pool.ips).sort((one, other) => good(one) - good(other) || order(place(one), place(other)));
  const wrong = sorted.filter((ip) => !good(ip)).length;
  return list("ul", "plain cards", sorted.map((ip) => address(pool, ip, now)), Math.max(MOST_TILES, Math.min(wrong, 2 * MOST_TILES)), `ips ${key}`);
}

function leftOut(object, key) {
  const groups = object.leftOut;
  if (!groups || groups.length === 0) return null;
  const count = groups.reduce((sum, group) => sum + group.count, 0);
  const lines = groups.map((group) => {
    const more = group.count > group.nodes.length ? ` and ${group.count - group.nodes.length} more` : "";
    return element("li", "", `${[...group.nodes].sort(order).join(", ")}${more}: ${group.reason}`);
  });
  return fold(`${count} ${count === 1 ? "node is" : "nodes are"} left out`, `out ${key}`, element("ul", "line", ...lines));
}

/** The items, grouped by a key, in their order. */
function grouped(items, key) {
  const groups = new Map();
  for (const item of items) groups.set(key(item), [...(groups.get(key(item)) || []), item]);
  return groups;
}

/** The nodes without an address: one row for all that wait for the same. */
function waiting(pool, key) {
  const groups = grouped(fitting(pool.nodesWithoutIP || []), ({ waitsFor }) => waitsFor);
  if (groups.size === 0) return [];
  const hidden = pool.waiting - pool.nodesWithoutIP.length;
  const count = (nodes) => (nodes.length === 1 ? "" : `${nodes.length} nodes: `);
  const name = ({ node, retrySeconds }) => (retrySeconds ? `${node} (tries again at ${clock(retrySeconds * 1000)})` : node);
  const row = ([why, nodes]) => element("li", "", `${count(nodes)}${why}: `, ...names(nodes.map(name), `wait ${key} ${why}`));
  return [
    none("Nodes that wait for an address:"), element("ul", "line", ...[...groups].map(row)), hidden > 0 ? none(`… and ${hidden} more`) : null,
  ];
}

function published(name, addresses, key) {
  return element("div", "", `${name}: `, ...(addresses.length ? names(addresses, `records ${key}`) : ["no address"]));
}

function pendingMove(move) {
  if (!move) return null;
  const since = new Date(move.sinceSeconds * 1000).toISOString().replace("T", " ").replace(".000Z", " UTC");
  const from = move.from ? ` from ${move.from}` : "";
  return element("p", "", `Move of ${move.ip}${from} to ${move.to}, pending since ${since}${move.waitsFor ? `: ${move.waitsFor}` : ""}`);
}

function lane(pool, now) {
  const key = `${pool.namespace}/${pool.name}`;
  const records = pool.records ? published(pool.records.name, pool.records.addresses, key) : null;
  return element(
    "article", "lane", head(pool, now), ...messages(pool), pendingMove(pool.pendingMove), ...addresses(pool, now, key), records,
    ...waiting(pool, key), leftOut(pool, key),
  );
}

function set(object, now) {
  const key = `set ${object.namespace}/${object.name}`;
  return element(
    "article", "lane", head(object, now), ...messages(object),
    object.error && !told(object).some(({ message }) => message === object.error) ? element("p", "", object.error) : null,
    published(`${object.dns || "no name yet"} at ${object.provider}`, object.addresses || [], key),
    leftOut(object, key),
  );
}

/** The phases of a move that have ended, each with its duration in milliseconds. A decision begins with the notice. */
function phasesOf({ noticedMs, decidedMs, confirmedMs, publishedMs }) {
  const requestedMs = Math.max(0, decidedMs - (noticedMs || 0));
  const all = [["noticed", noticedMs], ["requested", requestedMs], ["confirmed", confirmedMs], ["published", publishedMs]];
  return all.filter(([, ms]) => typeof ms === "number");
}

function phases(one) {
  if (!one.phases) return null;
  const ended = phasesOf(one.phases);
  const bar = element("div", "bar");
  bar.setAttribute("aria-hidden", "true");
  for (const [word, ms] of ended) {
    const part = element("span", word);
    part.style.flexGrow = String(ms);
    bar.append(part);
  }
  const words = ended.map(([word, ms]) => element("li", word, `${word}: ${span(ms)}`));
  const whole = ended.reduce((sum, [, ms]) => sum + ms, 0);
  return element("div", "", bar, element("ul", "phases", ...words, element("li", "", `in all: ${span(whole)}`)));
}

/** The text of a change without its times. */
function described({ ip, from, to, namespace, name, reason }) {
  const where = (node) => node || "no node";
  return [`${ip}: ${where(from)} → ${where(to)}`, `${namespace}/${name}: ${reason}`];
}

/** A row of changes that differ only in their times, the newest first. The earlier ones fold. */
function change([one, ...earlier]) {
  const time = ({ time }) => time.replace("T", " ").replace("Z", "");
  const [what, why] = described(one);
  const times = element("ul", "plain quiet", ...earlier.map((other) => element("li", "", time(other))));
  return element(
    "li", "change",
    element("span", "quiet", time(one)),
    element(
      "div", "",
      element("strong", "", what),
      element("p", "quiet", why),
      phases(one),
      earlier.length ? fold(`${earlier.length + 1} times`, `change ${what} ${why}`, times) : null,
    ),
  );
}

/** Whether the filter finds a thing: some text of it contains the text of the filter. */
function passes(thing) {
  return JSON.stringify(thing).toLowerCase().includes(filter.value.trim().toLowerCase());
}

/** The parts of an object that pass the filter. All of them, if the filter found something else of the object. */
function fitting(parts) {
  const found = parts.filter(passes);
  return found.length ? found : [...parts];
}

/** Why nothing is drawn. */
function nothing(all, empty) {
  return all.length ? "The filter finds nothing." : empty;
}

/** Shows the objects that pass the filter, those that fail first. */
function objects(id, all, draw, empty) {
  const name = (object) => `${object.namespace}/${object.name}`;
  const found = all.filter(passes).sort((one, other) => rank(one) - rank(other) || order(name(one), name(other)));
  const drawn = found.slice(0, MOST_OBJECTS).map(draw);
  if (drawn.length === 0) drawn.push(none(nothing(all, empty)));
  if (found.length > MOST_OBJECTS) drawn.push(none(`${found.length - MOST_OBJECTS} more: use the filter.`));
  show(id, drawn);
}

function render(debug) {
  const now = debug.nowSeconds || Date.now() / 1000;
  const other = debug.version !== version ? ` Its version is ${debug.version || "unknown"}, and that of this page is ${version}: reload.` : "";
  const leads = debug.leading
    ? `This replica leads (${debug.leader || "name unknown"}).`
    : `This replica does not lead. ${debug.leader ? `The leader is ${debug.leader}.` : "No leader is known."}`;
  state(debug.leading && !other ? "good" : "doubt", leads + other);
  objects("pools", debug.pools || [], (pool) => lane(pool, now), "No pools.");
  objects("sets", debug.recordSets || [], (object) => set(object, now), "No record sets.");
  const accounts = debug.accounts || [];
  const budget = ({ provider, requestsLeft, outSinceSeconds }) => {
    const out = outSinceSeconds ? `, out for ${Math.round(now - outSinceSeconds)} s` : "";
    return element("li", out && "bad", `${provider}: ${requestsLeft ?? "an unknown number of"} requests left${out}`);
  };
  show("accounts", accounts.length ? accounts.map(budget) : [element("li", "quiet", "No token is used.")]);
  const changes = debug.changes || [];
  const found = [...grouped(changes.filter(passes).reverse(), (one) => described(one).join(" ")).values()].map(change);
  show("changes", found.length ? list("ol", "plain", found, MOST_CHANGES, "changes") : [none(nothing(changes, "No changes yet."))]);
}

function write(id, text) {
  const place = document.getElementById(id);
  if (place.textContent !== text) place.textContent = text;
}

function state(tone, text) {
  document.getElementById("state").className = `mark ${tone}`;
  write("state", text);
}

async function turn() {
  try {
    const answer = await fetch("debug", { cache: "no-store" });
    if (!answer.ok) throw new Error(`the answer is ${answer.status}`);
    last = await answer.json();
    lastMs = Date.now();
    render(last);
    write("refreshed", `Refreshed at ${clock(lastMs)}`);
    document.body.className = "";
  } catch (error) {
    state("bad", `The operator does not answer: ${error.message}.`);
    if (last) write("refreshed", `What is shown is ${span(Math.floor((Date.now() - lastMs) / 1000) * 1000)} old.`);
    document.body.className = "stale";
  }
  setTimeout(turn, PERIOD_MS);
}

filter.addEventListener("input", () => { if (last) render(last); });
turn();
