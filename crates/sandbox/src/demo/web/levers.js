// The buttons of the sandbox. Each sends one of its commands with the token of the URL that the sandbox printed.
// It uses element() and show() of page.js, which is loaded before.
"use strict";

const token = new URLSearchParams(location.hash.slice(1)).get("token");

/** A button that sends a command. Its name says of which node, for those who hear it. */
function lever(text, command, name) {
  const made = element("button", "lever", text);
  made.type = "button";
  made.dataset.command = command;
  // A button that takes the place of its opposite takes its focus.
  made.dataset.focus = command.replace(/ (down|up)$/, "");
  if (name) made.setAttribute("aria-label", `${text} ${name}`);
  return made;
}

function nodeCard({ name, ready, cordoned, address }) {
  const [tone, text] = !ready ? ["bad", "silent"] : cordoned ? ["doubt", "cordoned"] : ["good", "ready"];
  const levers = token
    ? element("div", "levers", lever("Kill", `kill ${name}`, name), lever("Drain", `drain ${name}`, name), lever("Heal", `heal ${name}`, name))
    : null;
  return element("li", `card ${tone}`, element("strong", "", name), mark(tone, text), address ? ` ${address}` : null, levers);
}

/** One node of each kind: a kind is a name without its number. */
function kinds(nodes) {
  const found = new Map();
  for (const { name } of nodes) {
    const kind = name.replace(/-\d+$/, "");
    if (!found.has(kind)) found.set(kind, name);
  }
  return [...found];
}

function world({ nodes, providersUp }) {
  const levers = [
    providersUp ? lever("Break the providers", "providers down") : lever("Mend the providers", "providers up"),
    lever("Lose the lease", "lease"),
    ...kinds(nodes).map(([kind, name]) => lever(`Add a node to ${kind}`, `add ${name}`)),
  ];
  show("world", token ? levers : [element("p", "", "To cause faults, open this page by the URL that the sandbox printed.")]);
  // Of many nodes, those that fail and those with an address are in sight. A few keep their places.
  const concern = ({ ready, cordoned, address }) => (nodes.length <= MOST_TILES ? 0 : !ready || cordoned ? 0 : address ? 1 : 2);
  const sorted = nodes.filter(passes).sort((one, other) => concern(one) - concern(other) || order(one.name, other.name));
  show("nodes", list("ul", "plain cards", sorted.map(nodeCard), MOST_TILES, "nodes"));
}

function tell(text) {
  const place = document.getElementById("told");
  if (place.textContent !== text) place.textContent = text;
}

async function act(command) {
  try {
    const answer = await fetch("sandbox", { method: "POST", headers: { "x-flipop-sandbox": token }, body: command });
    tell((await answer.text()).trim());
    await look();
  } catch (error) {
    tell(`The sandbox does not answer: ${error.message}.`);
  }
}

async function look() {
  const answer = await fetch("sandbox", { cache: "no-store" });
  if (answer.ok) world(await answer.json());
}

async function lookOn() {
  try {
    await look();
  } catch (error) {
    tell(`The sandbox does not answer: ${error.message}.`);
  }
  setTimeout(lookOn, PERIOD_MS);
}

function begin() {
  const title = element("h2", "", "Sandbox");
  title.id = "sandbox-title";
  const place = (name, id, kind) => {
    const made = element(name, kind);
    made.id = id;
    return made;
  };
  const told = place("p", "told", "told");
  told.setAttribute("role", "status");
  const intro = element("p", "quiet", "The cluster and its providers are simulated. Kill a node that has an address, and see it move.");
  const section = element("section", "wide", title, intro, place("div", "world", "levers"), told, place("div", "nodes"));
  section.setAttribute("aria-labelledby", title.id);
  section.addEventListener("click", ({ target }) => {
    const pressed = target.closest("[data-command]");
    if (pressed) act(pressed.dataset.command);
  });
  document.querySelector("main").prepend(section);
}

begin();
lookOn();
