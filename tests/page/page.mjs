// The web page in a headless Chromium: node page.mjs SANDBOX CHROMIUM FOLDER FINGERPRINT
//
// It starts the sandbox, causes a failover with the page's buttons, and then shows states that are made up. Screenshots
// go into FOLDER, with README's picture, which bears FINGERPRINT. What is wrong is printed, and ends the process with 1.
import { spawn } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { crc32 } from "node:zlib";
import puppeteer from "puppeteer-core";

const [sandboxPath, chromiumPath, folder, fingerprint] = process.argv.slice(2);
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const wrong = [];
const fail = (text) => wrong.push(text);
const SIZES = [[360, 740], [1280, 800], [3840, 2160]];

/** Starts the sandbox and answers when it names its page. */
function sandbox() {
  const child = spawn(sandboxPath, ["serve"], { stdio: ["pipe", "pipe", "inherit"] });
  const begun = Date.now();
  return new Promise((resolve, reject) => {
    let told = "";
    const end = (code) => reject(new Error(`the sandbox ended with ${code}: ${told}`));
    child.once("exit", end);
    child.stdout.on("data", (data) => {
      told += data;
      const page = told.match(/web page: (http:\S+)\n/);
      const operator = told.match(/metrics: (http:\S+)metrics\n/);
      if (page && operator) {
        child.off("exit", end);
        resolve({ child, url: page[1], operator: operator[1], begun });
      }
    });
  });
}

/** Waits until the page says this. */
async function says(page, text, within = 20000) {
  const here = (text) => document.body.innerText.includes(text);
  await page.waitForFunction(here, { timeout: within }, text).catch(async () => {
    throw new Error(`the page does not say "${text}" but ${await page.evaluate(() => document.body.innerText)}`);
  });
}

async function accessible(page, what) {
  // The page's own policy lets no script in but its own: axe comes through the debugger.
  await page.evaluate(axe);
  const found = await page.evaluate(() => axe.run(document, { resultTypes: ["violations"] }));
  for (const violation of found.violations) {
    fail(`${what}: ${violation.id}: ${violation.help}: ${violation.nodes.map((node) => node.html).slice(0, 3).join(" ")}`);
  }
}

async function narrow(page, what) {
  const over = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
  if (over > 0) fail(`${what}: the page is ${over} px wider than the window`);
}

async function everywhere(page, name) {
  for (const theme of ["light", "dark"]) {
    await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: theme }]);
    for (const [width, height] of SIZES) {
      await page.setViewport({ width, height });
      await narrow(page, `${name} ${theme} ${width}`);
      await page.screenshot({ path: `${folder}/${name}-${theme}-${width}.png` });
    }
    await accessible(page, `${name} ${theme}`);
  }
  await page.setViewport({ width: 1280, height: 800 });
}

/** Presses the button of a command, as a user does. */
async function press(page, command) {
  const button = await page.waitForSelector(`button[data-command="${command}"]`);
  await button.click();
}

/** Waits until the page has asked for the state twice more. */
async function twoTurns(page) {
  for (let turn = 0; turn < 2; turn += 1) {
    await page.waitForResponse((response) => response.url().endsWith("/debug"));
  }
}

/** README's picture: a failover on the operator's own page, with a chunk that says which page it shows. */
async function picture(browser, operator) {
  const page = await browser.newPage();
  await page.setViewport({ width: 900, height: 600 });
  await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: "light" }]);
  // Only the part about the failover: the operator's words about one pool, and its last change.
  const told = await (await fetch(`${operator}debug`)).json();
  const pools = told.pools.filter((pool) => pool.name === "ingress-pool");
  const debug = { ...told, pools, recordSets: [], accounts: [], changes: told.changes.slice(-1) };
  await page.setRequestInterception(true);
  page.on("request", (request) => {
    if (!request.url().endsWith("/debug")) return request.continue();
    return request.respond({ contentType: "application/json", body: JSON.stringify(debug) });
  });
  await page.goto(operator);
  await says(page, "published: ");
  await page.evaluate(() => {
    for (const empty of ["sets", "accounts"]) document.querySelector(`[aria-labelledby=${empty}-title]`).hidden = true;
  });
  const height = await page.evaluate(() => Math.ceil(document.querySelector("main").getBoundingClientRect().bottom));
  const png = Buffer.from(await page.screenshot({ clip: { x: 0, y: 0, width: 900, height } }));
  const data = Buffer.concat([Buffer.from("tEXtflipop-page\0", "latin1"), Buffer.from(fingerprint, "latin1")]);
  const [length, sum] = [Buffer.alloc(4), Buffer.alloc(4)];
  length.writeUInt32BE(data.length - 4);
  sum.writeUInt32BE(crc32(data));
  const end = png.length - 12;
  writeFileSync(`${folder}/picture.png`, Buffer.concat([png.subarray(0, end), length, data, sum, png.subarray(end)]));
  await page.close();
}

const pool = (more) => ({
  namespace: "default", name: "web", provider: "digitalocean",
  conditions: [{ type: "Ready", status: "True", reason: "Assigned", message: "1 of 1 addresses are on matching nodes" }],
  ips: [{ ip: "203.0.113.10", state: "active", node: "edge-1", providerID: "digitalocean://1", assignments: 1, errors: 0 }],
  nodesWithoutIP: [{ node: "edge-2", waitsFor: "an address" }], suspects: [],
  records: { name: "www.example.com", addresses: ["203.0.113.10"] },
  leftOut: [{ reason: "is not Ready", count: 21, nodes: ["edge-3", "edge-4"] }],
  ...more,
});

/** Two hundred nodes of four pools, of which one fails: 60 addresses each, and the other nodes wait. */
function crowd() {
  const numbers = (from, to) => Array.from({ length: to - from + 1 }, (_, index) => from + index);
  const ips = numbers(1, 60).map((n) => ({ ip: `203.0.113.${n}`, state: "active", node: `edge-${n}` }));
  const nodesWithoutIP = numbers(62, 200).map((n) => ({ node: `edge-${n}`, waitsFor: "no address of the pool is free" }));
  const records = { name: "www.example.com", addresses: ips.map(({ ip }) => ip) };
  const pools = ["game-10", "game-9", "apple"].map((name) => pool({ name, ips, nodesWithoutIP, records }));
  const moving = { ip: "203.0.113.2", state: "in-progress", node: "edge-2", target: "edge-61", why: "stopped reporting (Ready is Unknown)",
    sinceSeconds: 988, error: "503 Service Unavailable" };
  const lost = { ip: "203.0.113.5", state: "no-match", node: "edge-5", why: "is not Ready", sinceSeconds: 700 };
  const failing = ips.map((ip) => [moving, lost].find((other) => other.ip === ip.ip) || ip);
  const conditions = [
    { type: "AddressesIdle", status: "True", reason: "NotServing", message: "203.0.113.5 is on edge-5" },
    { type: "Ready", status: "False", reason: "Assigning", message: "58 of 60", sinceSeconds: 760, remedy: "See [`Paused`](#paused)." },
  ];
  return [...pools, pool({ name: "zebra", ips: failing, nodesWithoutIP, records, conditions })];
}

/** Checks the order of a crowd, its folds, the place of the changes, and the filter. */
async function ordered(page) {
  const seen = () => page.evaluate(() => {
    const shown = (selector) => [...document.querySelectorAll(selector)].filter((one) => one.checkVisibility()).map((one) => one.innerText);
    const box = (id) => document.getElementById(id).getBoundingClientRect();
    return { pools: shown("#pools h3"), tiles: shown("#pools .lane:first-child strong").filter((text) => text.startsWith("edge-")),
      changes: shown("#changes .change").length, beside: box("changes").left >= box("pools").right };
  });
  const is = (what, told, right) => { if (String(told) !== String(right)) fail(`many: ${what}: ${told}, not ${right}`); };
  const all = await seen();
  is("pools", all.pools, ["default/zebra", "default/apple", "default/game-9", "default/game-10"]);
  is("tiles", all.tiles, ["edge-2 → edge-61", "edge-5", "edge-1", "edge-3", "edge-4", ...[6, 7, 8, 9, 10, 11, 12].map((n) => `edge-${n}`)]);
  is("changes", [all.changes, all.beside], [20, true]);
  await page.type("#filter", "edge-61");
  const found = await seen();
  is("found", [found.pools, found.tiles, found.changes], ["default/zebra", "edge-2 → edge-61", 0]);
  await page.$eval("#filter", (filter) => { filter.value = ""; filter.dispatchEvent(new Event("input")); });
  await page.setViewport({ width: 360, height: 740 });
  is("narrow", (await seen()).beside, false);
}

/** Checks that changes which differ only in their times are one row, with the times of the earlier ones in a fold. */
async function repeated(page) {
  const seen = () => page.$$eval("#changes .change", (rows) => rows.map((row) => row.innerText.replace(/\s+/g, " ")));
  await page.evaluate(() => document.querySelector("#changes summary").click());
  const rows = await seen();
  const right = [/^2026-01-01 00:00:00.000 .*edge-9 → edge-1.*4 times 2025-12-31 23:30:00.000 2025-12-31 23:00:00.000 2025-12-31 22:00/, /edge-1 → edge-9/];
  if (rows.length !== 2 || !right.every((words, n) => words.test(rows[n]))) fail(`repeated: ${JSON.stringify(rows)}`);
}

/** Made-up states: what /debug says, what the page has to say then, and what else holds. */
function states(version) {
  const base = { version, leading: true, leader: "a_1", nowSeconds: 1000, pools: [], recordSets: [], accounts: [], changes: [] };
  const moved = { namespace: "default", name: "web", ip: "203.0.113.10", from: "edge-9", to: "edge-1", reason: "edge-9 is not Ready" };
  const hostile = "<img src=x onerror=document.title='owned'>";
  return [
    ["empty", base, ["This replica leads (a_1).", "No pools.", "No token is used.", "No changes"]],
    ["standby", { ...base, leading: false, leader: "b_2" }, ["This replica does not lead. The leader is b_2."]],
    ["other-version", { ...base, version: "9.9.9" }, [`Its version is 9.9.9, and that of this page is ${version}`]],
    ["busy", {
      ...base, pools: [pool({}), pool({
        name: "failing", conditions: [{ type: "Ready", status: "False", reason: "NoMatchingNode", message: "no node matches" },
          { type: "Paused", status: "True", reason: "Annotation", message: "incident 7" }],
        ips: [{ ip: "203.0.113.12", state: "active", node: "edge-1" },
          { ip: "203.0.113.11", state: "in-progress", node: "edge-7", target: "edge-8", next: "outcome unknown (503)" }],
        pendingMove: { ip: "203.0.113.11", from: "edge-7", to: "edge-8", sinceSeconds: 0, waitsFor: "the cool-off" },
        suspects: [{ node: "edge-1", reason: "is not Ready", sinceSeconds: 970, endsSeconds: 1030 }],
        nodesWithoutIP: [{ node: "edge-5", waitsFor: "the last assignment failed", retrySeconds: 43384 }, { node: "edge-6", waitsFor: "the last assignment failed" }],
      })],
      recordSets: [{ namespace: "default", name: "n", provider: "cloudflare", dns: "nodes.example.net", records: 0,
        addresses: [], state: "error", error: "e", conditions: [], leftOut: [] }],
      accounts: [{ provider: "digitalocean", requestsLeft: 4900 }, { provider: "cloudflare", requestsLeft: null }],
      changes: [["22:00", 7], ["23:00", 8], ["23:30", 9]].map(([time, confirmedMs]) => ({ ...moved, time: `2025-12-31T${time}:00.000Z`, phases: { decidedMs: 1, confirmedMs } }))
        .concat({ ...moved, from: "edge-1", to: "edge-9", reason: "it is back", time: "2025-12-31T23:45:00.000Z" },
          { ...moved, time: "2026-01-01T00:00:00.000Z", phases: { noticedMs: 3, decidedMs: 12, confirmedMs: 1500, publishedMs: null } }),
    }, ["grace ends in 30 s", "21 nodes are left out", "paused", "4900 requests left", "edge-9 → edge-1", "noticed: 3 ms", "requested: 9 ms", "confirmed: 1.5 s", "in all: 1.5 s", "an address: edge-2", "edge-7 → edge-8", "outcome unknown (503)", "Move of 203.0.113.11 from edge-7 to edge-8, pending since 1970-01-01 00:00:00 UTC: the cool-off", "nodes.example.net at cloudflare: no address", "2 nodes: the last assignment failed: edge-5 (tries again at 12:03:04 UTC), edge-6", "4 times", "e"], repeated],
    ["many", {
      ...base, pools: crowd(),
      changes: Array.from({ length: 60 }, (_, n) => ({ time: "2026-01-01T00:00:00.000Z", namespace: "default", name: "zebra", ip: `203.0.113.${n}`,
        from: `edge-${n}`, to: `node-${n}`, reason: "moved" })),
    }, ["Ready: False (Assigning) for 4 min", "Ready (Assigning): 58 of 60", "See Paused.", "503 Service Unavailable", "48 more", "40 more",
      "edge-2 stopped reporting (Ready is Unknown); it lost its match 12 s ago", "139 nodes: no address of the pool is free: edge-62, edge-63"], ordered],
    ["hostile", {
      ...base, leader: hostile, pools: [pool({ name: hostile,
        ips: [{ ip: hostile, state: hostile, node: hostile, target: hostile, next: hostile, why: hostile, sinceSeconds: 1, error: hostile }],
        conditions: [{ type: hostile, status: "True", reason: hostile, message: hostile, remedy: hostile }],
        nodesWithoutIP: [{ node: hostile, waitsFor: hostile }], leftOut: [{ reason: hostile, count: 1, nodes: [hostile] }] })],
      changes: [{ time: hostile, namespace: hostile, name: hostile, ip: hostile, from: hostile, to: hostile, reason: hostile }],
    }, [hostile]],
  ];
}

const { child, url, operator, begun } = await sandbox();
const browser = await puppeteer.launch({ executablePath: chromiumPath, headless: true, args: ["--no-sandbox"] });
try {
  const page = await browser.newPage();
  page.on("console", (message) => { if (message.type() === "error" && !expected) fail(`console: ${message.text()}`); });
  page.on("pageerror", (error) => fail(`script: ${error.message}`));
  let expected = false;
  await page.setViewport({ width: 1280, height: 800 });
  await page.goto(url);
  await says(page, "This replica leads");
  await says(page, "203.0.113.10");
  await says(page, "Refreshed at ");
  // A failover as a stranger sees it, who presses a button.
  await press(page, "kill edge-1");
  await says(page, "203.0.113.10: edge-1 → edge-3");
  const took = Date.now() - begun;
  if (took > 30000) fail(`the failover showed ${took} ms after the start of the sandbox`);
  console.log(`the failover showed ${took} ms after the start of the sandbox`);
  await says(page, "left out");
  await says(page, "ingress.example.com: 203.0.113.10, 203.0.113.11");
  await says(page, "published: ");
  await says(page, "KILL edge-1");
  await picture(browser, operator);
  await everywhere(page, "failover");
  // Unchanged parts stay, with the selection in them, while the page is renewed.
  const kept = await page.evaluateHandle(() => document.querySelector("#pools .lane:last-child"));
  await twoTurns(page);
  if (!(await kept.evaluate((lane) => lane.isConnected))) fail("a pool that did not change was drawn again");
  // With the keyboard alone.
  await page.reload();
  await page.waitForSelector("button");
  for (const _ of ["the filter", "the first button"]) await page.keyboard.press("Tab");
  const focused = await page.evaluate(() => document.activeElement.dataset.command);
  if (focused !== "providers down") fail(`Tab leads to ${focused}`);
  await page.keyboard.press("Enter");
  await says(page, "PROVIDERS are down");
  await twoTurns(page);
  const next = await page.evaluate(() => document.activeElement.dataset.command);
  await page.keyboard.press("Enter");
  await says(page, "PROVIDERS are up").catch(() => fail(`after the providers broke, the focus is on ${next}`));
  await page.evaluate(() => document.querySelector("summary").focus());
  await page.keyboard.press("Enter");
  await twoTurns(page);
  if (!(await page.evaluate(() => document.querySelector("details").open))) fail("Enter opens nothing");
  await press(page, "add edge-1");
  await says(page, "edge-4");
  await press(page, "drain edge-2");
  // The pool has a cool-off of 20 s.
  await says(page, "203.0.113.11: edge-2 → edge-4", 60000);
  await press(page, "heal edge-2");
  await says(page, "HEAL edge-2");
  // Without the token the page shows the same, and has no buttons.
  const stranger = await browser.newPage();
  await stranger.goto(url.split("#")[0]);
  await says(stranger, "by the URL that the sandbox printed");
  await says(stranger, "203.0.113.10");
  if (await stranger.$("button")) fail("there are buttons without a token");
  await stranger.close();
  // The operator's own page has no buttons at all.
  const own = await browser.newPage();
  await own.goto(operator);
  await says(own, "203.0.113.10");
  if (await own.$("button")) fail("the operator's page has buttons");
  await own.close();
  // From here on no operator may answer for a moment, and the browser reports that as an error.
  expected = true;
  await press(page, "lease");
  await says(page, "LEASE: somebody else holds it");
  await says(page, "This replica does not lead");
  await says(page, "This replica leads", 60000);
  expected = false;
  // Made-up states, through the same page.
  const version = await page.evaluate(() => document.querySelector("meta[name=flipop-version]").content);
  let answer = null;
  await page.setRequestInterception(true);
  page.on("request", (request) => {
    if (!request.url().endsWith("/debug")) return request.continue();
    return answer ? request.respond({ contentType: "application/json", body: JSON.stringify(answer) }) : request.abort();
  });
  for (const [name, debug, texts, check] of states(version)) {
    answer = debug;
    await page.reload();
    for (const text of texts) {
      await says(page, text).catch(() => fail(`${name}: the page does not say ${text}`));
    }
    if (await page.evaluate(() => document.querySelector("#changes").innerText.includes("published"))) {
      fail(`${name}: a phase shows that has not ended`);
    }
    await everywhere(page, name);
    if (check) await check(page);
    await page.setViewport({ width: 1280, height: 800 });
  }
  const title = await page.title();
  if (title !== "FLIPOP" || (await page.$("img"))) fail(`markup from outside was parsed: ${title}`);
  expected = true;
  answer = null;
  await says(page, "The operator does not answer");
  await says(page, "What is shown is");
  await everywhere(page, "silent");
} catch (error) {
  fail(String(error.stack || error));
} finally {
  await browser.close();
  child.kill("SIGINT");
}
for (const text of wrong) console.error(text);
process.exit(wrong.length ? 1 : 0);
