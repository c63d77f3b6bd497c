// Shows what /debug says, each second. Every text goes in as text: nothing from outside is parsed as markup.
"use strict";

const PERIOD_MS = 1000;
const version = document.querySelector("meta[name=flipop-version]").content;

/** An element with a class and children; strings become text. */
function element(name, kind, ...children) {
  const made = document.createElement(name);
  if (kind) made.className = kind;
  for (const child of children) if (child !== null && child !== undefined) made.append(child);
  return made;
}

/** Replaces only the children that differ, so that focus, selection and a press of a button last. */
function show(id, children) {
  const place = document.getElementById(id);
  const open = [...place.querySelectorAll("details[open]")].map((details) => details.dataset.key);
  const focused = place.contains(document.activeElement) ? document.activeElement.dataset.focus : null;
  const before = [...place.children];
  children.forEach((fresh, position) => {
    for (const details of fresh.querySelectorAll("details")) {
      if (open.includes(details.dataset.key)) details.open = true;
    }
    const old = before[position];
    if (!old) place.append(fresh);
    else if (!old.isEqualNode(fresh)) old.replaceWith(fresh);
  });
  for (const old of before.slice(children.length)) old.remove();
  if (focused && !place.contains(document.activeElement)) {
    const again = [...place.querySelectorAll("[data-focus]")].find((one) => one.dataset.focus === focused);
    if (again) again.focus();
  }
}

function mark(tone, text) {
  return element("span", `mark ${tone}`, text);
}

function toneOf(status) {
  return status === "True" ? "good" : status === "False" ? "bad" : "doubt";
}

function seconds(ms) {
  return ms < 1000 ? `${ms} ms` : `${(ms / 1000).toFixed(1)} s`;
}

function head(object) {
  const ready = (object.conditions || []).find((condition) => condition.type === "Ready");
  const paused = (object.conditions || []).find((condition) => condition.type === "Paused");
  return element(
    "div", "head",
    element("h3", "", `${object.namespace}/${object.name}`),
    ready ? mark(toneOf(ready.status), `Ready: ${ready.status} (${ready.reason})`) : null,
    paused ? mark("doubt", "paused") : null,
  );
}

function messages(object) {
  const told = (object.conditions || []).filter((condition) => condition.message);
  const wrong = told.filter((condition) => condition.type === "Ready" || condition.status === "True" || condition.status === "False");
  const plain = wrong.filter((condition) => !(condition.type !== "Ready" && condition.status === "True" && condition.type.endsWith("Ready")));
  return plain.map((condition) => element("p", "quiet", condition.type === "Ready" ? condition.message : `${condition.type}: ${condition.message}`));
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
  return element("div", "", element("p", "", `${suspect.reason}: grace ends in ${Math.ceil(left)} s`), bar);
}

function address(pool, ip, now) {
  const suspect = ip.node && (pool.suspects || []).some((one) => one.node === ip.node);
  const tone = ip.state === "active" ? (suspect ? "doubt" : "good") : ip.state === "in-progress" || ip.state === "disabled" ? "doubt" : "bad";
  const published = (pool.records && pool.records.addresses.includes(ip.ip)) ? `in ${pool.records.name}` : null;
  return element(
    "li", `card ${tone}`,
    element("strong", "", (ip.node || "on no matching node") + (ip.target ? ` → ${ip.target}` : "")),
    element("span", "", ip.ip, " "), mark(tone, ip.state || "unknown"),
    ip.next || ip.error ? element("p", "quiet", ip.next || ip.error) : null,
    published ? element("p", "quiet", published) : null,
    grace(pool, ip.node, now),
  );
}

function leftOut(object) {
  const groups = object.leftOut;
  if (!groups || groups.length === 0) return null;
  const count = groups.reduce((sum, group) => sum + group.count, 0);
  const summary = element("summary", "", `${count} ${count === 1 ? "node is" : "nodes are"} left out`);
  summary.dataset.focus = `out ${object.namespace}/${object.name}`;
  const lines = groups.map((group) => {
    const more = group.count > group.nodes.length ? ` and ${group.count - group.nodes.length} more` : "";
    return element("li", "", `${group.nodes.join(", ")}${more}: ${group.reason}`);
  });
  const details = element("details", "", summary, element("ul", "line", ...lines));
  details.dataset.key = summary.dataset.focus;
  return details;
}

function pendingMove(move) {
  if (!move) return null;
  const since = new Date(move.sinceSeconds * 1000).toISOString().replace("T", " ").replace(".000Z", " UTC");
  const from = move.from ? ` from ${move.from}` : "";
  return element("p", "", `Move of ${move.ip}${from} to ${move.to}, pending since ${since}${move.waitsFor ? `: ${move.waitsFor}` : ""}`);
}

function lane(pool, now) {
  const waiting = (pool.nodesWithoutIP || []).map((wait) => element("li", "", `${wait.node}: ${wait.waitsFor}`));
  const records = pool.records
    ? element("p", "", `${pool.records.name}: ${pool.records.addresses.join(", ") || "no address"}`)
    : null;
  return element(
    "article", "lane", head(pool), ...messages(pool),
    pendingMove(pool.pendingMove),
    element("ul", "plain cards", ...pool.ips.map((ip) => address(pool, ip, now))),
    records,
    waiting.length ? element("p", "quiet", "In line for an address:") : null,
    waiting.length ? element("ol", "line", ...waiting) : null,
    pool.waiting > waiting.length ? element("p", "quiet", `… and ${pool.waiting - waiting.length} more`) : null,
    leftOut(pool),
  );
}

function set(object) {
  return element(
    "article", "lane", head(object), ...messages(object),
    element("p", "", `${object.dns || "no name yet"} at ${object.provider}: ${(object.addresses || []).join(", ") || "no address"}`),
    leftOut(object),
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
  const words = ended.map(([word, ms]) => element("li", word, `${word}: ${seconds(ms)}`));
  const whole = ended.reduce((sum, [, ms]) => sum + ms, 0);
  return element("div", "", bar, element("ul", "phases", ...words, element("li", "", `in all: ${seconds(whole)}`)));
}

function change(one) {
  const place = (node) => node || "no node";
  return element(
    "li", "change",
    element("span", "quiet", one.time.replace("T", " ").replace("Z", "")),
    element(
      "div", "",
      element("strong", "", `${one.ip}: ${place(one.from)} → ${place(one.to)}`),
      element("p", "quiet", `${one.namespace}/${one.name}: ${one.reason}`),
      phases(one),
    ),
  );
}

function none(text) {
  return element("p", "quiet", text);
}

function render(debug) {
  const now = debug.nowSeconds || Date.now() / 1000;
  const other = debug.version !== version ? ` Its version is ${debug.version || "unknown"}, and that of this page is ${version}: reload.` : "";
  const leads = debug.leading
    ? `This replica leads (${debug.leader || "name unknown"}).`
    : `This replica does not lead. ${debug.leader ? `The leader is ${debug.leader}.` : "No leader is known."}`;
  state(debug.leading && !other ? "good" : "doubt", leads + other);
  const pools = debug.pools || [];
  show("pools", pools.length ? pools.map((pool) => lane(pool, now)) : [none("No pools.")]);
  const sets = debug.recordSets || [];
  show("sets", sets.length ? sets.map(set) : [none("No record sets.")]);
  const accounts = debug.accounts || [];
  const budget = ({ provider, requestsLeft }) => element("li", "", `${provider}: ${requestsLeft ?? "an unknown number of"} requests left`);
  show("accounts", accounts.length ? accounts.map(budget) : [element("li", "quiet", "No token is used.")]);
  const changes = [...(debug.changes || [])].reverse();
  show("changes", changes.length ? changes.map(change) : [element("li", "quiet", "No changes yet.")]);
}

function state(tone, text) {
  const place = document.getElementById("state");
  if (place.innerText === text && place.className === `mark ${tone}`) return;
  place.className = `mark ${tone}`;
  place.textContent = text;
}

async function turn() {
  try {
    const answer = await fetch("debug", { cache: "no-store" });
    if (!answer.ok) throw new Error(`the answer is ${answer.status}`);
    render(await answer.json());
  } catch (error) {
    state("bad", `The operator does not answer: ${error.message}. What is shown may be old.`);
  }
  setTimeout(turn, PERIOD_MS);
}

turn();
