// What is chosen and changed, what the model makes of it, and what happens on a key, a press or a dropped file.

const TOOLS = {
  draw: "Draw in the picture.",
  erase: "Erase ink: the pixels become black, and their patch stays a token.",
  look: "Point at a patch: it is the query. Click to keep it.",
  remove: "Press on patches, one or many, to take their tokens away: the model gets nothing of them, not even black."
    + " Press again to put them back.",
  move: "Drag a patch onto another: they swap.",
};
const COUNT = channels * height * width;
const READ = page.reads === "mean" ? MEAN : 0; // what the model's class head reads
const pixelsOfAll = bytesOf("pixels");
const relevances = $("relevance") ? new Int8Array(bytesOf("relevance").buffer) : null;
const weights = live ? readWeights() : {};
const model = live ? buildModel() : null;
const heads = []; // heads[layer][head]: a map and what belongs to it
const LEAD = {
  digits: "A Vision Transformer that runs in this page. Draw on the digit, or press Blank and draw your own: the answer and"
    + " the maps follow.",
  pictures: "A Vision Transformer that runs in this page. Draw on the picture, take patches away, or open your own: the"
    + " answer and the maps follow.",
  stored: "What a Vision Transformer computed for these pictures. Point at a patch to see where each head looks from there.",
};

// What is chosen and changed
const fresh = () => ({order: [...Array(patches).keys()], removed: new Set(), off: new Set()});
const noPixels = new Uint8Array(COUNT);
// opened: the pixels as they were when the picture was opened
let state = {example: null, name: "", label: null, pixels: noPixels, opened: noPixels, ...fresh()};
let past = [];
let shown = null; // the pixels of the picture as it is shown

// What the model makes of it
let now = null;
let untouched = null; // the logits without the changes
let waiting = 0; // the frame that is waited for
let task = {id: 0, jobs: [], answers: []};
let send = null;
let timer = 0;
let drawn = 0;

// What the hand does
let tool = live ? "draw" : "look";
let pinned = READ;
let query = READ;
let pen = null;
let adding = false;
let picked = null;
let cursor = [0, 0];
let cell = null; // of the confusion matrix
let isQuerySaid = false;

function readWeights() {
  const numbers = new Float32Array(bytesOf("weights").buffer);
  return Object.fromEntries(page.weights.map(([name, from, to]) => [name, numbers.subarray(from, to)]));
}

// A model that model.js does not know is told on the page, which then stops.
function buildModel() {
  try {
    return new VisionTransformer(page.config, weights);
  } catch (error) {
    $("verdict").textContent = error.message;
    throw error;
  }
}

function edit(change) {
  const {pixels, order, removed, off} = state;
  past = [...past.slice(-199), state];
  state = {...state, pixels: pixels.slice(), order: [...order], removed: new Set(removed), off: new Set(off)};
  change(state);
  if (!pen) notice(""); // in a stroke nothing may move: at its end
  update();
}

const isMoved = () => state.order.some((patch, place) => patch !== place);
const pixelsOf = example => pixelsOfAll.slice(example * COUNT, (example + 1) * COUNT);
const isRedrawn = () => state.example !== null && !isSame(state.pixels, pixelsOf(state.example));
const isTouched = () => isMoved() || isRedrawn() || state.removed.size + state.off.size > 0;
const truth = () => isRedrawn() ? null : state.label; // what is drawn on may be another digit

function show(example) {
  const pixels = pixelsOf(example);
  edit(now => Object.assign(now, page.examples[example], {example, pixels, opened: pixels}));
  say(forHand(TOOLS[tool])); // what was said of the picture before is over
}

// Another picture; what is switched off stays off.
function replace(name, pixels) {
  edit(now => Object.assign(now, fresh(), {off: now.off, name, pixels, opened: pixels, label: null, example: null}));
  keepQuery(READ);
}

// The picture at once, the model when the screen has been drawn
function update() {
  shown = state.pixels;
  if (isMoved()) {
    const from = sources(page.image, page.grid, state.order);
    shown = state.pixels.map((_, i) => state.pixels[from[i]]);
  }
  paintPicture($("picture"), shown);
  document.body.style.setProperty("--picture", `url(${$("picture").toDataURL()})`);
  paint($("cover"), columns, rows, patch => [128, 128, 128, state.removed.has(prefix + patch) ? 235 : 0]);
  if (waiting) return;
  waiting = requestAnimationFrame(() => setTimeout(() => {
    waiting = 0;
    if (live) compute();
    else showStored(state.example);
  }));
}

const prepare = pixels => normalise(pixels, page.image, page.mean, page.std);

// With everything on. Asked again for the same pixels, as after each head that is switched off, it is not computed again.
function logitsOf(pixels) {
  if (!lastAsked || !isSame(lastAsked.pixels, pixels)) {
    const {logits} = model.forward(prepare(pixels), {record: false});
    lastAsked = {pixels: pixels.slice(), logits};
  }
  return lastAsked.logits;
}

let lastAsked = null;

function compute() {
  const image = prepare(shown);
  now = model.forward(image, state);
  untouched = now.logits;
  const isAll = !isMoved() && state.removed.size + state.off.size === 0;
  if (isAll) lastAsked = {pixels: state.pixels.slice(), logits: now.logits};
  if (isTouched()) untouched = logitsOf(state.example === null ? state.pixels : pixelsOf(state.example));
  planEffects(image);
  render();
}

async function showStored(example) {
  const packed = new Blob([bytesOf(`attention-${example}`)]).stream().pipeThrough(new DecompressionStream("deflate"));
  const bytes = new Uint8Array(await new Response(packed).arrayBuffer());
  if (example !== state.example) return; // another one was chosen meanwhile
  const {logits, levels} = page.examples[example];
  const size = (prefix + patches) ** 2;
  const all = unpack(bytes, page.layers * page.heads * size, levels);
  const attention = heads.map((layer, i) => layer.map((_, j) => {
    const from = size * (i * page.heads + j);
    return all.subarray(from, from + size);
  }));
  now = {logits, attention, tokens: [...Array(prefix + patches).keys()], after: []};
  untouched = logits;
  render();
}

// The patches that are still there, those with the most rollout first: the map is of use at once
function patchesInOrder() {
  const reached = inPlace(rollout(READ));
  const left = now.tokens.slice(prefix);
  return left.sort((a, b) => reached[b - prefix] - reached[a - prefix]);
}

// The model again without each patch, layer and head that is still there
function planEffects(image) {
  const off = [...state.off];
  const removed = [...state.removed];
  const jobs = [];
  const planWithout = key => {
    if (!off.includes(key)) jobs.push({key, removed, off: [...off, key]});
  };
  for (const token of patchesInOrder()) {
    jobs.push({key: `patch ${token}`, removed: [...removed, token], off});
  }
  heads.forEach((layer, i) => {
    if (off.includes(`${i}`)) return;
    planWithout(`${i}`);
    layer.forEach((_, j) => planWithout(`${i}.${j}`));
  });
  task = {id: task.id + 1, jobs, answers: [], image};
  clearTimeout(timer);
  timer = setTimeout(startEffects, 400);
}

function startEffects() {
  send ??= startRunner($("model").textContent, page.config, weights, receiveEffect);
  send(task);
}

function receiveEffect({id, job, logits}) {
  if (id !== task.id) return;
  task.answers[job] = logits;
  const isLast = job + 1 === task.jobs.length;
  if (isLast || performance.now() - drawn > 100) {
    drawn = performance.now();
    renderEffects();
  }
}

const score = (logits, [one, other] = pair()) => logits[one] - logits[other];

// The answer, and the truth or the next: what is compared if nothing was chosen, and what stored relevance compares
function firstPair() {
  const [one, next = one] = ranking(now.logits);
  return [one, [truth(), next].find(i => i !== null && i !== one) ?? one];
}

// The two classes that were chosen, if they differ; else the answer, and the truth or the next
function pair() {
  const [first, second = first] = ranking(now.logits);
  const left = $("one").value;
  const right = $("other").value;
  const one = left === "" ? first : Number(left);
  const isOther = i => Number.isInteger(i) && i !== one;
  const next = one === first ? second : first;
  const other = [right && Number(right), truth()].find(isOther) ?? next;
  return [one, other];
}

const has = token => token === MEAN || now.tokens.includes(token);

// The weights of the heads of a layer that are not switched off
function headsOn(layer) {
  return (now.attention[layer] ?? []).filter((_, head) => !state.off.has(`${layer}.${head}`));
}

// The row of one token: (tokens, tokens) -> (tokens)
function rowOf(weights, token) {
  const size = now.tokens.length;
  if (token === MEAN) return meanOfRows(weights.subarray(prefix * size), size);
  const at = now.tokens.indexOf(token) * size;
  return weights.subarray(at, at + size);
}

// (tokens) -> (n_h * n_w), nan where a patch is left out
function inPlace(row) {
  const values = new Float32Array(prefix + patches).fill(NaN);
  now.tokens.forEach((token, i) => { values[token] = row[i]; });
  return values.subarray(prefix);
}

// Through all layers, each half the mean of its heads and half what it was given: rollout in attention.py.
function rollout(token) {
  const size = now.tokens.length;
  const start = one => token === MEAN ? (one >= prefix) / (size - prefix) : one === token;
  let row = Float32Array.from(now.tokens, start);
  for (let layer = heads.length - 1; layer >= 0; layer--) {
    const some = headsOn(layer);
    if (some.length === 0) continue;
    const next = row.map(value => value / 2);
    const part = 1 / some.length / 2;
    for (const weights of some) {
      weights.forEach((value, i) => { next[i % size] += row[Math.floor(i / size)] * value * part; });
    }
    row = next;
  }
  return row;
}

function ask(token, isSpoken = false) {
  if (!now || !has(token)) return;
  query = token;
  renderMaps();
  if (isSpoken) sayQuery();
}

// What the maps of the query show; said again after each change
function sayQuery() {
  const texts = heads.flat().slice(0, 12).map(map => `${map.name} ${map.text}`);
  say(`${nameOf(query)}: ${texts.join("; ")}`);
  isQuerySaid = true;
}

function pin(token) {
  pinned = token;
  ask(token, true);
  happened("pin", token);
}

// The query from the next rendering on
function keepQuery(token) {
  pinned = token;
  query = token;
}

function say(text) {
  $("status").textContent = text;
  isQuerySaid = false;
}

// What is told until the next change
function notice(text) {
  $("notice").textContent = text;
  $("notice").hidden = text === "";
}

const inks = () => tool === "draw" || tool === "erase";

function pixelAt(element, {clientX, clientY}) {
  const box = element.getBoundingClientRect();
  return [(clientX - box.left) * width / box.width, (clientY - box.top) * height / box.height];
}

const inside = (value, below) => limit(Math.floor(value), 0, below - 1);

function tokenAt([x, y]) {
  const row = inside(y * rows / height, rows);
  return prefix + columns * row + inside(x * columns / width, columns);
}

function choose(key) {
  tool = key;
  picked = null;
  pen = null;
  adding = false;
  $("board").className = `marked ${key}`;
  for (const button of $("tools").children) button.setAttribute("aria-checked", button.key === key);
  say(forHand(TOOLS[key]));
}

// --- the tools, by mouse, finger or keys: begin, use along the way, end ---

function begin(at) {
  const token = tokenAt(at);
  if (tool === "look") {
    pin(token);
    return;
  }
  if (tool === "move") picked = token;
  else edit(() => { adding = inks() || !state.removed.has(token); });
  use(at, at);
  update();
}

function use(from, to) {
  const token = tokenAt(to);
  if (tool === "move") mark("spot", token);
  if (tool === "remove" && adding) state.removed.add(token);
  if (tool === "remove" && !adding) state.removed.delete(token);
  if (inks()) ink(from, to);
}

// What is drawn belongs to the patch that stands there.
function ink(from, to) {
  const sourceOf = sources(page.image, page.grid, state.order);
  const after = shown.slice();
  stroke(after, page.image, from, to, inkColour());
  shown = after;
  after.forEach((value, i) => { state.pixels[sourceOf[i]] = value; });
}

// A number for each channel
function inkColour() {
  if (tool === "erase") return Array(channels).fill(0);
  if (channels !== 3) return Array(channels).fill(255);
  const {value} = $("colour"); // "#rrggbb"
  return [1, 3, 5].map(i => parseInt(value.slice(i, i + 2), 16));
}

function end(at) {
  mark("spot", null);
  if (picked === null) return;
  const a = picked - prefix;
  const b = tokenAt(at) - prefix;
  picked = null;
  edit(({order}) => { [order[a], order[b]] = [order[b], order[a]]; });
  say(`The patches in ${spot(a)} and ${spot(b)} have swapped places.`);
}

function onKey(event) {
  const step = ARROWS[event.key];
  if (!step && ![" ", "Enter", "Escape"].includes(event.key)) return;
  event.preventDefault();
  if (step) moveCursor(step);
  else if (event.key === "Escape") pin(READ);
  else if (picked !== null) end(cursor);
  else if (inks() && adding) adding = false;
  else begin(cursor);
}

function moveCursor(step) {
  const size = inks() ? [width / 28, width / 28] : [width / columns, height / rows];
  const limits = [width, height];
  const before = cursor;
  cursor = cursor.map((value, i) => inside(value + step[i] * size[i], limits[i]) + 0.5);
  if (inks() && adding) {
    use(before, cursor);
    update();
  }
  const token = tokenAt(cursor);
  if (!inks() && picked === null) {
    mark("spot", null);
    ask(token, true);
    return;
  }
  mark("spot", token);
  const penIs = adding ? "pen down, " : "pen up, ";
  say((inks() ? penIs : "") + nameOf(token));
}

// Classes to compare; "": those that the page chooses
function choosePair(one, other) {
  $("one").value = one;
  $("other").value = other;
}

// A file in the form that the model takes; it does not leave the page.
async function openFile(file) {
  const bitmap = await createImageBitmap(file).catch(() => null);
  if (!bitmap) {
    say(`${file.name} cannot be opened as a picture: give a PNG or JPEG file.`);
    return;
  }
  const pixels = preparePicture(bitmap);
  if (pixels) replace(file.name, pixels);
  else say(`There is no ink in ${file.name}: draw a digit that stands out from its paper.`);
}

function preparePicture(bitmap) {
  const {width: w, height: h} = bitmap;
  const brush = make("canvas", {width: w, height: h}).getContext("2d");
  brush.fillStyle = "#fff"; // what can be seen through is white paper
  brush.fillRect(0, 0, w, h);
  brush.drawImage(bitmap, 0, 0);
  const {data} = brush.getImageData(0, 0, w, h);
  const channel = c => Float64Array.from({length: w * h}, (_, i) => data[4 * i + c]);
  const [red, green, blue] = [0, 1, 2].map(channel);
  const grey = red.map((_, i) => Math.round(0.299 * red[i] + 0.587 * green[i] + 0.114 * blue[i]));
  if (page.digits) return digit(grey, h, w);
  return middle(channels === 3 ? [red, green, blue] : [grey], h, w, width);
}

// --- the page, built once ---

function build() {
  const {body} = document;
  body.classList.toggle("stored", !live);
  body.classList.toggle("headless", !hasClasses);
  body.classList.toggle("several", page.heads > 2);
  body.classList.toggle("many", page.heads > 4);
  body.classList.toggle("wordy", page.classes.some(name => name.length > 2));
  body.style.setProperty("--rows", rows);
  body.style.setProperty("--columns", columns);
  body.style.setProperty("--heads", page.heads);
  if (page.aim) {
    $("aim").hidden = false;
    $("aim").replaceChildren(`Training aimed at ${percent(page.aim)}, not at 100 %: `, term("label smoothing"), ".");
  }
  let kind = page.digits ? "digits" : "pictures";
  if (!live) {
    kind = "stored";
    if (!relevances) $("why-title").textContent = "Attention, all heads together";
  }
  $("lead").textContent = forHand(LEAD[kind]);
  $("maps-hint").textContent = forHand("Click a map for its numbers.");
  $("colour").hidden = channels !== 3;
  for (const key of live ? Object.keys(TOOLS) : ["look"]) {
    $("tools").append(make("button", {textContent: key, key, role: "radio", onclick: () => choose(key)}));
  }
  for (const token of [...page.prefix.keys(), ...(READ === MEAN ? [MEAN] : [])]) {
    const button = make("button", {textContent: nameOf(token), token, onclick: () => pin(token)});
    if (token === 0) button.dataset.term = "class token";
    if (token === READ) button.dataset.part = "reader";
    $("askers").append(button);
  }
  for (let i = 0; i < page.layers; i++) buildLayer(i);
  for (const id of ["one", "other", "filter"]) {
    $(id).append(...page.classes.map((textContent, value) => make("option", {textContent, value})));
  }
  buildControls();
  buildAddress();
  buildOpening();
  buildTerms();
  buildDropping();
  buildTheme();
  buildBoard($("picture"));
  for (const id of ["effect", "relevance-map", "last", "rolled"]) buildReading(id);
  for (const id of ["tools", "heads", "matrix"]) roving($(id))();
}

const showOver = () => document.body.classList.toggle("over", $("over").checked);

function buildControls() {
  $("why-not").onclick = () => {
    scrollBelowTour($("why"), "start");
    $("other").focus({preventScroll: true});
  };
  $("one").onchange = renderWhy;
  $("other").onchange = renderWhy;
  for (const id of ["filter", "wrong"]) $(id).onchange = () => chooseCell(null);
  $("chip").onclick = () => chooseCell(null);
  $("save").onclick = savePicture;
  $("scale").onchange = renderMaps;
  $("over").onchange = showOver;
  $("undo").onclick = () => {
    if (past.length < 2) return; // the first of all is empty
    state = past.pop();
    update();
  };
  $("reset").onclick = () => {
    edit(now => {
      Object.assign(now, fresh(), {pixels: now.opened});
    });
    keepQuery(READ);
    choosePair("", "");
    say("The picture is as it was when it was opened, and everything is on. Undo takes that back.");
  };
  $("blank").onclick = () => {
    replace("a drawing", new Uint8Array(COUNT));
    choose("draw");
  };
  $("file").onchange = () => openFile($("file").files[0]);
  document.onkeydown = event => {
    if ((event.ctrlKey || event.metaKey) && event.key === "z") $("undo").click();
  };
}

// A notebook tells the page in its frame the colour of text there: light in a dark theme.
function buildTheme() {
  addEventListener("message", ({data}) => {
    const colour = /^rgba?\((\d+), (\d+), (\d+)/.exec(data);
    if (!colour) return;
    const [red, green, blue] = colour.slice(1).map(Number);
    document.documentElement.style.colorScheme = red + green + blue > 382 ? "dark" : "light";
  });
}

function buildDropping() {
  document.ondragover = event => event.preventDefault();
  document.ondrop = event => {
    event.preventDefault();
    const [file] = event.dataTransfer.files;
    if (live && file) openFile(file);
  };
}

function buildBoard(board) {
  board.onkeydown = onKey;
  board.onpointerleave = () => ask(pinned);
  board.onpointerdown = event => {
    board.setPointerCapture(event.pointerId);
    pen = pixelAt(board, event);
    begin(pen);
  };
  board.onpointermove = event => {
    if (!pen || tool === "look") {
      if (!inks()) ask(tokenAt(pixelAt(board, event)));
      return;
    }
    for (const one of event.getCoalescedEvents()) {
      const to = pixelAt(board, one);
      use(pen, to);
      pen = to;
    }
    update();
  };
  const lift = event => {
    if (pen) end(pixelAt(board, event));
    if (pen && tool !== "look") notice("");
    pen = null;
    adding = false;
    if (now && !waiting) happened("render"); // else when it is rendered
  };
  board.onpointerup = lift;
  board.onpointercancel = lift;
}

// A map whose values are read by pointing at a square, or with the arrow keys
function buildReading(id) {
  const canvas = $(id);
  const told = make("p", {className: "small reading", ariaLive: "polite"});
  let at = 0;
  const read = patch => {
    at = patch;
    const value = drawnValues[id]?.[at] ?? NaN;
    const isSigned = id === "effect" || id === "relevance-map";
    const text = isSigned ? signedBy(value, 4) : value.toFixed(4);
    told.textContent = `${spot(at)}: ${Number.isNaN(value) ? "not there" : text}`;
    mark("spot", prefix + at);
  };
  const leave = () => {
    told.textContent = READ_HINT;
    mark("spot", null);
  };
  canvas.parentElement.after(told);
  canvas.tabIndex = 0;
  canvas.setAttribute("role", "application");
  canvas.ariaLabel = "map; arrow keys read its squares";
  canvas.onpointermove = event => read(tokenAt(pixelAt(canvas, event)) - prefix);
  canvas.onpointerdown = canvas.onpointermove;
  canvas.onpointerleave = leave;
  canvas.onblur = leave;
  canvas.onfocus = () => {
    if (canvas.matches(":focus-visible")) read(at);
  };
  canvas.onkeydown = event => {
    const step = ARROWS[event.key];
    if (!step) return;
    event.preventDefault();
    const row = limit(Math.floor(at / columns) + step[1], 0, rows - 1);
    read(columns * row + limit(at % columns + step[0], 0, columns - 1));
  };
  leave();
}

const READ_HINT = forHand("Point at a square for its value.");

// A checkbox that switches a layer or a head off, and its label
function buildToggle(name, key) {
  const flip = ({off}) => {
    if (!off.delete(key)) off.add(key);
  };
  const toggle = make("input", {type: "checkbox", onchange: () => edit(flip), hidden: !live});
  return {key, toggle, label: make("label", {}, toggle, name.replace(" ", "\u00a0"))};
}

function buildLayer(i) {
  const scale = make("span", {className: "small"});
  const layer = Object.assign([], buildToggle(`layer ${i}`, `${i}`), {scale});
  for (let j = 0; j < page.heads; j++) layer.push(buildMap(i, j));
  heads.push(layer);
  const first = make("p", {}, layer.label, scale);
  layer.box = make("div", {className: "layer"}, first, ...layer.map(map => map.box));
  layer.box.dataset.part = `layer ${i}`;
  $("heads").append(layer.box);
}

function buildMap(i, j) {
  const canvas = make("canvas");
  const caption = make("figcaption", {className: "small"});
  const map = {...buildToggle(`head ${j}`, `${i}.${j}`), name: `layer ${i} head ${j}`, canvas, caption};
  map.button = make("button", {className: "map marked", onclick: event => showNumbers(map, pressed(event))}, canvas);
  // Enter presses no square
  const pressed = event => event.detail > 0 ? tokenAt(pixelAt(canvas, event)) : null;
  map.button.onpointermove = event => {
    const token = tokenAt(pixelAt(canvas, event));
    const value = map.values[token - prefix];
    mark("spot", token);
    $("reading").textContent = `${map.name}: ${nameOf(query)} → ${nameOf(token)}: ${value.toFixed(4)}`;
  };
  map.button.onpointerleave = () => {
    mark("spot", null);
    renderMaps();
  };
  map.box = make("figure", {}, map.label, map.button, caption);
  return map;
}

// --- the examples: of each class in turn the clearest one that is left, misclassified ones last ---

const isWrong = ({label, prediction}) => label !== null && label !== prediction;

function inTurn(examples) {
  const clearest = examples.map((one, i) => ({...one, i}));
  clearest.sort((a, b) => isWrong(a) - isWrong(b) || b.probability - a.probability);
  const seen = new Map();
  for (const one of clearest) {
    const kind = one.label ?? one.prediction;
    one.turn = seen.get(kind) ?? 0;
    seen.set(kind, one.turn + 1);
  }
  return clearest.sort((a, b) => isWrong(a) - isWrong(b) || a.turn - b.turn || a.label - b.label);
}

const sorted = inTurn(page.examples);

// The example that the page opens on; of digits, the 7 that is nearest to the mean of all sevens
function openingExample() {
  const sevens = sorted.filter(one => one.label === SEVEN && !isWrong(one) && one.probability > 0.9);
  if (!page.digits || sevens.length === 0) return sorted[0];
  const all = sevens.map(({i}) => pixelsOf(i));
  const mean = Array.from(all[0], (_, at) => sumOf(all.map(pixels => pixels[at])) / all.length);
  const distances = all.map(pixels => Math.hypot(...mean.map((value, at) => value - pixels[at])));
  return sevens[distances.indexOf(Math.min(...distances))];
}

function isListed(one) {
  if (cell) return one.label === cell[0] && one.prediction === cell[1];
  if ($("wrong").checked && !isWrong(one)) return false;
  return [String(one.label ?? one.prediction), ""].includes($("filter").value);
}

function listExamples() {
  const some = sorted.filter(isListed);
  $("count").textContent = `${some.length} shown`;
  $("examples").replaceChildren(...some.map(buildExample));
  firstExample();
  return some;
}

// The filter for misclassified examples says how many there are of all that were classified: the page shows more of them
// than of the others.
function buildWrongFilter() {
  const here = sorted.filter(isWrong).length;
  $("wrong-only").hidden = here === 0;
  const number = value => value.toLocaleString("en");
  const {wrong, total} = page.found ?? {wrong: here, total: sorted.length};
  const part = here < wrong ? here : "all";
  $("wrong-text").textContent = `only misclassified (${number(wrong)} of ${number(total)}, ${part} here)`;
  const both = `. Here are ${here} misclassified and ${sorted.length - here} others.`;
  $("about").textContent = page.text + (here > 0 ? both : "");
}

function buildExample(one) {
  const canvas = make("canvas");
  paintPicture(canvas, pixelsOf(one.i));
  const truth = one.label === null ? "" : `; truth ${page.classes[one.label]}`;
  const prediction = `: classified as ${page.classes[one.prediction]}, ${percent(one.probability)}`;
  const title = hasClasses ? `${one.name}${prediction}${truth}` : one.name;
  const className = isWrong(one) ? "wrong" : "";
  return make("button", {example: one.i, title, ariaLabel: title, className, onclick: () => show(one.i)}, canvas);
}

function buildMatrix({counts, text}) {
  $("confusions").hidden = false;
  $("matrix-text").textContent = forHand(text);
  const className = page.classes.some(name => name.length > 2) ? "upright" : "";
  const titles = page.classes.map(name => make("th", {}, make("span", {textContent: name, className})));
  $("matrix").append(line("", ...titles));
  counts.forEach((row, truth) => {
    const buttons = row.map((count, answer) => count ? buildCount(count, truth, answer) : "");
    $("matrix").append(line(page.classes[truth], ...buttons.map(button => make("td", {}, button))));
  });
}

// Only the examples of a cell of the confusion matrix; null: no cell
function chooseCell(chosen) {
  cell = chosen;
  $("chip").hidden = cell === null;
  if (cell) {
    const [truth, answer] = cell.map(i => page.classes[i]);
    $("chip").textContent = truth === answer ? `${truth}, classified correctly ×` : `${truth} taken for ${answer} ×`;
    $("chip").ariaLabel = `Show all examples, not only: ${$("chip").textContent}`;
  }
  return listExamples();
}

function buildCount(count, truth, answer) {
  const title = `truth ${page.classes[truth]}, classified as ${page.classes[answer]}: ${count}`;
  const onclick = () => {
    $("filter").value = "";
    $("wrong").checked = false;
    const [first] = chooseCell([truth, answer]);
    if (first) show(first.i);
    $("look").scrollIntoView({block: "start"});
    $("chip").focus({preventScroll: true});
  };
  return make("button", {textContent: count, className: truth === answer ? "" : "wrong", title, onclick});
}

if (page.matrix) buildMatrix(page.matrix);
build();
const stopAmongClasses = roving($("classes"));
const firstExample = roving($("examples"));
buildWrongFilter();
buildTour();
choose(tool);
listExamples();
show(openingExample().i);
if (location.hash) openAddress(location.hash);
