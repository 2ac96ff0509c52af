// What is seen, as the part of an address after #, and back. Only what differs from the page as it opens is
// written. What is read was written by anybody: each part is checked, and one that does not fit is left out.
//   example=NAME  pixels=BASE64 of the deflated pixels, if they were changed  removed=5,6 (tokens)
//   order=0,2,1 (the patch at each place)  off=0.1,1 (heads, layers)  query=7  tool=draw  step=3 (of the tour)
//   why=7 and than=1 (the classes that were chosen)  scale=map  over=1 (maps over the picture)
//   class=7, wrong=1, cell=4,9 (which examples are listed: of a class, misclassified, of a cell of the confusion matrix)
// A step alone, without a picture, begins the tour there.

async function packed(bytes, Stream) {
  const stream = new Blob([bytes]).stream().pipeThrough(new Stream("deflate-raw"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

// base64 with letters that an address may hold
function toText(bytes) {
  const letters = Array.from(bytes, byte => String.fromCharCode(byte)).join("");
  return btoa(letters).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

function fromText(text) {
  const letters = atob(text.replaceAll("-", "+").replaceAll("_", "/"));
  return Uint8Array.from(letters, letter => letter.charCodeAt(0));
}

const isSame = (a, b) => a.every((value, i) => value === b[i]);

// Controls whose choice an address holds: its part, the control's id
const KEPT = {why: "one", than: "other", scale: "scale", class: "filter"};
const TICKED = {over: "over", wrong: "wrong"};

async function addressOf({example, pixels, order, removed, off}) {
  const parts = new URLSearchParams();
  if (example !== null) parts.set("example", page.examples[example].name);
  if (live) {
    const isChanged = example === null || !isSame(pixels, pixelsOf(example));
    if (isChanged) parts.set("pixels", toText(await packed(pixels, CompressionStream)));
    if (isMoved()) parts.set("order", order.join());
    if (removed.size > 0) parts.set("removed", [...removed].join());
    if (off.size > 0) parts.set("off", [...off].join());
    if (tool !== "draw") parts.set("tool", tool);
  }
  for (const [part, id] of Object.entries(KEPT)) {
    if ($(id).selectedIndex > 0) parts.set(part, $(id).value);
  }
  for (const [part, id] of Object.entries(TICKED)) {
    if ($(id).checked) parts.set(part, 1);
  }
  if (cell) parts.set("cell", cell.join());
  if (step !== null) parts.set("step", step + 1);
  if (pinned !== READ) parts.set("query", pinned);
  return parts.toString();
}

// What is shown, as it is, at a step of the tour: also for the page of another model, which has other patches
async function addressOfStep(number, tool) {
  const parts = new URLSearchParams();
  if (state.example !== null) parts.set("example", page.examples[state.example].name);
  parts.set("pixels", toText(await packed(shown, CompressionStream)));
  parts.set("tool", tool);
  parts.set("step", number);
  return parts.toString();
}

// The part after # of an address, or the text itself
const partOf = text => text.slice(text.indexOf("#") + 1).trim();

const numbersIn = (text, isGood) => (text ?? "").split(",").filter(Boolean).map(Number).filter(isGood);

const isPatch = token => Number.isInteger(token) && token >= prefix && token < prefix + patches;

async function pixelsIn(text) {
  try {
    const pixels = await packed(fromText(text), DecompressionStream);
    return pixels.length === COUNT ? pixels : null;
  } catch {
    return null;
  }
}

// What an address says of the state; null if it names nothing that this page has
async function stateIn(text) {
  const parts = new URLSearchParams(partOf(text));
  const example = page.examples.findIndex(({name}) => name === parts.get("example"));
  const given = live && parts.has("pixels") ? await pixelsIn(parts.get("pixels")) : null;
  if (example < 0 && !given) return null;

  const found = {...fresh(), example: null, name: "a drawing", label: null};
  if (example >= 0) Object.assign(found, page.examples[example], {example});
  found.pixels = given ?? pixelsOf(example);
  found.opened = example >= 0 ? pixelsOf(example) : given;
  if (!live) return found;
  const order = numbersIn(parts.get("order"), isPatchPlace);
  if (new Set(order).size === patches) found.order = order;
  found.removed = new Set(numbersIn(parts.get("removed"), isPatch));
  found.off = new Set((parts.get("off") ?? "").split(",").filter(isPartKey));
  return found;
}

const isPatchPlace = patch => Number.isInteger(patch) && patch >= 0 && patch < patches;

const isPartKey = key => [...heads, ...heads.flat()].some(part => part.key === key);

// A class of a part of an address, "" if it is none
const classIn = text => /^\d+$/.test(text) && page.classes[Number(text)] !== undefined ? `${Number(text)}` : "";

// The controls as an address says; what it leaves out is as the page opens.
function restoreControls(parts) {
  for (const [part, id] of Object.entries(KEPT)) {
    const given = parts.get(part) ?? "";
    const isKnown = [...$(id).options].some(({value}) => value === given);
    if (isKnown) $(id).value = given;
    else $(id).selectedIndex = 0;
  }
  for (const [part, id] of Object.entries(TICKED)) $(id).checked = parts.get(part) === "1";
  if ($("wrong-only").hidden) $("wrong").checked = false; // there are none
  showOver();
  const given = (parts.get("cell") ?? "").split(",");
  const isCell = page.matrix !== null && given.length === 2 && given.every(text => classIn(text) !== "");
  chooseCell(isCell ? given.map(Number) : null);
}

// Why an address shows nothing
function whyNothing(text) {
  const name = new URLSearchParams(partOf(text)).get("example");
  if (!name) return "That names no picture of this page: paste the whole link, or all of it after #.";
  return `The link names the example ${name.slice(0, 60)}, which this page does not have: nothing has changed. Open the link`
    + " in the page that it was made in; drawings open in the page of any model for such pictures.";
}

// Shows what an address says; if it says nothing that can be shown, tells why and returns false.
async function openAddress(text) {
  const parts = new URLSearchParams(partOf(text));
  const number = Number(parts.get("step")) - 1;
  const isStep = Boolean(hasTour() && STEPS[number]);
  if (isStep && !parts.has("example") && !parts.has("pixels")) {
    beginTour(number);
    return true;
  }
  const found = await stateIn(text);
  if (!found) {
    notice(whyNothing(text));
    return false;
  }
  edit(state => Object.assign(state, found));
  if (live && TOOLS[parts.get("tool")]) choose(parts.get("tool"));
  restoreControls(parts);
  const query = Number(parts.get("query") ?? READ);
  keepQuery(isPatch(query) || page.prefix[query] ? query : READ);
  if (isStep) goTo(number, false);
  return true;
}

// A page on a server has an address that can be sent; of a file or a notebook's frame it is the part after #.
async function share() {
  const part = `#${await addressOf(state)}`;
  const isServed = location.protocol.startsWith("http");
  const text = isServed ? location.href.split("#")[0] + part : part;
  $("link-here").value = text;
  $("link-given").value = "";
  let told = "It opens this page as it is now: ";
  if (!isServed) told = "Whoever has this page adds this to its address, or pastes it below. It holds ";
  $("link-text").textContent = `${told}${HELD}.`;
  $("link").showModal();
}

const HELD = "the picture, what is changed, the tool, the query, the classes compared, how the maps are drawn, which examples"
  + " are listed, and the step of the tour";

// Only when it is asked for: the clipboard may hold the link that is to be opened.
async function copyLink() {
  $("link-here").select();
  let told = "Copied.";
  try {
    await navigator.clipboard.writeText($("link-here").value);
  } catch {
    told = "The browser does not allow it: copy the marked text with Ctrl+C.";
  }
  $("link-text").textContent = told;
}

async function openGiven() {
  const isOpened = await openAddress($("link-given").value);
  if (isOpened) $("link").close();
  else $("link-text").textContent = whyNothing($("link-given").value);
}

// Who has left the tour is not thrown back into it by loading the page again.
function forgetAddress() {
  if (location.hash) history.replaceState(null, "", location.pathname + location.search);
}

function buildAddress() {
  $("share").onclick = share;
  $("link-copy").onclick = copyLink;
  $("link-open").onclick = openGiven;
  $("link-given").onkeydown = event => {
    if (event.key !== "Enter") return;
    event.preventDefault();
    openGiven();
  };
  addEventListener("hashchange", () => openAddress(location.hash));
}
