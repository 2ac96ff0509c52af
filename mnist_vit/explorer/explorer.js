// What is chosen and changed, what the model makes of it, and what happens on a key, a press or a dropped file.

const TOOLS = {
  look: "Point at a patch: it is the query. Click to keep it.", draw: "Draw in the picture.", erase: "Erase ink.",
  remove: "Press on patches to leave them out, or to put them back.", move: "Drag a patch onto another: they swap.",
};
const COUNT = channels * height * width, READ = page.reads === "mean" ? MEAN : 0; // what the model's class head reads
const pixelsOfAll = bytesOf("pixels"), numbers = live ? new Float32Array(bytesOf("weights").buffer) : null, heads = [];
const weights = Object.fromEntries(page.weights.map(([name, from, to]) => [name, numbers.subarray(from, to)]));
const model = live ? new VisionTransformer(page.config, weights) : null;
const fresh = () => ({order: [...Array(patches).keys()], removed: new Set(), off: new Set()});
let state = {example: null, name: "", label: null, pixels: new Uint8Array(COUNT), ...fresh()}, past = [], shown = null;
let now = null, untouched = null, waiting = 0, task = {id: 0, jobs: [], answers: []}, send = null, timer = 0, drawn = 0;
let tool = "look", pinned = READ, query = READ, pen = null, adding = false, picked = null, cursor = [0, 0], cell = null;

function edit(change) {
  const {pixels, order, removed, off} = state;
  past = [...past.slice(-199), state];
  state = {...state, pixels: pixels.slice(), order: [...order], removed: new Set(removed), off: new Set(off)};
  change(state);
  update();
}

const isMoved = () => state.order.some((patch, place) => patch !== place);
const isTouched = () => isMoved() || state.removed.size + state.off.size > 0;
const pixelsOf = example => pixelsOfAll.slice(example * COUNT, (example + 1) * COUNT);
const show = example => edit(now => Object.assign(now, page.examples[example], {example, pixels: pixelsOf(example)}));
const replace = (name, pixels) =>
  edit(now => Object.assign(now, fresh(), {off: now.off, name, pixels, label: null, example: null}));

// The picture at once, the model when the screen has been drawn
function update() {
  const from = isMoved() ? sources(page.image, page.grid, state.order) : null;
  shown = from ? state.pixels.map((_, i) => state.pixels[from[i]]) : state.pixels;
  paintPicture($("picture"), shown);
  document.body.style.setProperty("--picture", `url(${$("picture").toDataURL()})`);
  paint($("cover"), columns, rows, patch => [128, 128, 128, state.removed.has(prefix + patch) ? 235 : 0]);
  waiting ||= requestAnimationFrame(() => setTimeout(() => {
    waiting = 0;
    live ? compute() : showStored(state.example);
  }));
}

function compute() {
  const image = normalise(shown, page.image, page.mean, page.std);
  now = model.forward(image, state);
  const before = isMoved() ? normalise(state.pixels, page.image, page.mean, page.std) : image;
  untouched = isTouched() ? model.forward(before, {record: false}).logits : now.logits;
  planEffects(image);
  render();
}

async function showStored(example) {
  const packed = new Blob([bytesOf(`attention-${example}`)]).stream().pipeThrough(new DecompressionStream("deflate"));
  const bytes = new Uint8Array(await new Response(packed).arrayBuffer()), size = (prefix + patches) ** 2;
  if (example !== state.example) return; // another one was chosen meanwhile
  const {logits, levels} = page.examples[example], all = unpack(bytes, page.layers * page.heads * size, levels);
  const head = (i, j) => all.subarray(size * (i * page.heads + j), size * (i * page.heads + j + 1));
  const attention = heads.map((layer, i) => layer.map((_, j) => head(i, j)));
  now = {logits, attention, tokens: [...Array(prefix + patches).keys()], after: []};
  untouched = logits;
  render();
}

// The model again without each layer, head and patch that is still there
function planEffects(image) {
  const off = [...state.off], removed = [...state.removed], there = key => !off.includes(key);
  const names = heads.flatMap((layer, i) => there(`${i}`) ? [`${i}`, ...layer.map((_, j) => `${i}.${j}`)] : []);
  const jobs = names.filter(there).map(key => ({key, removed, off: [...off, key]}));
  for (const token of now.tokens.slice(prefix)) jobs.push({key: `patch ${token}`, removed: [...removed, token], off});
  task = {id: task.id + 1, jobs, answers: [], image};
  clearTimeout(timer);
  timer = setTimeout(startEffects, 400);
}

function startEffects() {
  send ??= startRunner($("model").textContent, page.config, weights, ({id, job, logits}) => {
    if (id !== task.id) return;
    task.answers[job] = logits;
    if (job + 1 === task.jobs.length || performance.now() - drawn > 100) renderEffects(drawn = performance.now());
  });
  send(task);
}

const score = (logits, [one, other] = pair()) => logits[one] - logits[other];

function pair() { // the two classes that were chosen, if they differ; else the answer, and the truth or the next
  const [first, second = first] = ranking(now.logits), {value: left} = $("one"), {value: right} = $("other");
  const one = left === "" ? first : Number(left), next = one === first ? second : first;
  return [one, [right && Number(right), state.label].find(i => Number.isInteger(i) && i !== one) ?? next];
}

const has = token => token === MEAN || now.tokens.includes(token);
const headsOn = layer => (now.attention[layer] ?? []).filter((_, head) => !state.off.has(`${layer}.${head}`));

// The row of one token: (tokens, tokens) -> (tokens)
function rowOf(weights, token) {
  const size = now.tokens.length, at = now.tokens.indexOf(token) * size;
  return token === MEAN ? meanOfRows(weights.subarray(prefix * size), size) : weights.subarray(at, at + size);
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
  let row = Float32Array.from(now.tokens, one => token === MEAN ? (one >= prefix) / (size - prefix) : one === token);
  for (const some of heads.map((_, layer) => headsOn(layer)).filter(some => some.length).reverse()) {
    const next = row.map(value => value / 2), part = 1 / some.length / 2;
    for (const one of some) one.forEach((value, i) => { next[i % size] += row[Math.floor(i / size)] * value * part; });
    row = next;
  }
  return row;
}

function ask(token, said = false) {
  if (!now || !has(token)) return;
  query = token;
  renderMaps();
  if (said) say(`${nameOf(token)}: ${heads.flat().slice(0, 12).map(map => `${map.name} ${map.text}`).join("; ")}`);
}

const pin = token => ask(pinned = token, true);
const say = text => { $("status").textContent = text; };
const inks = () => tool === "draw" || tool === "erase";
const pixelAt = (element, {clientX, clientY}, box = element.getBoundingClientRect()) =>
  [(clientX - box.left) * width / box.width, (clientY - box.top) * height / box.height];
const inside = (value, below) => Math.min(below - 1, Math.max(0, Math.floor(value)));
const tokenAt = ([x, y]) => prefix + columns * inside(y * rows / height, rows) + inside(x * columns / width, columns);

function choose(key) {
  [tool, picked, pen, adding] = [key, null, null, false];
  $("board").className = `marked ${key}`;
  for (const button of $("tools").children) button.setAttribute("aria-checked", button.key === key);
  say(TOOLS[key]);
}

function begin(at) {
  const token = tokenAt(at);
  if (tool === "look") return pin(token);
  if (tool === "move") picked = token;
  else edit(() => { adding = inks() || !state.removed.has(token); });
  use(at, at);
  update();
}

function use(from, to) {
  const token = tokenAt(to);
  if (tool === "move") mark("spot", token);
  if (tool === "remove") adding ? state.removed.add(token) : state.removed.delete(token);
  if (inks()) { // what is drawn belongs to the patch that stands there
    const sourceOf = sources(page.image, page.grid, state.order), after = shown.slice(), {value} = $("colour");
    const colour = channels === 3 ? [1, 3, 5].map(i => parseInt(value.slice(i, i + 2), 16)) : Array(channels).fill(255);
    stroke(after, page.image, from, to, tool === "erase" ? colour.fill(0) : colour);
    shown = after;
    after.forEach((value, i) => { state.pixels[sourceOf[i]] = value; });
  }
}

function end(at) {
  const a = picked - prefix, b = tokenAt(at) - prefix;
  mark("spot", null);
  if (picked === null) return;
  picked = null;
  edit(({order}) => { [order[a], order[b]] = [order[b], order[a]]; });
  say(`The patches in ${spot(a)} and ${spot(b)} have swapped places.`);
}

function onKey(event) {
  const step = ARROWS[event.key], size = inks() ? [width / 28, width / 28] : [width / columns, height / rows];
  if (!step && ![" ", "Enter", "Escape"].includes(event.key)) return;
  event.preventDefault();
  if (step) {
    const before = cursor, limits = [width, height];
    cursor = cursor.map((value, i) => inside(value + step[i] * size[i], limits[i]) + 0.5);
    const token = tokenAt(cursor), isPlain = !inks() && picked === null;
    if (inks() && adding) use(before, cursor), update();
    mark("spot", isPlain ? null : token);
    if (isPlain) ask(token, true);
    else say(`${inks() ? `pen ${adding ? "down" : "up"}, ` : ""}${nameOf(token)}`);
  } else if (event.key === "Escape") pin(READ);
  else if (picked !== null) end(cursor);
  else if (inks() && adding) adding = false;
  else begin(cursor);
}

// A file in the form that the model takes; it does not leave the page.
async function openFile(file) {
  const bitmap = await createImageBitmap(file).catch(() => null);
  if (!bitmap) return say(`${file.name} cannot be opened as a picture: give a PNG or JPEG file.`);
  const {width: w, height: h} = bitmap, brush = make("canvas", {width: w, height: h}).getContext("2d");
  brush.fillStyle = "#fff"; // what can be seen through is white paper
  brush.fillRect(0, 0, w, h);
  brush.drawImage(bitmap, 0, 0);
  const {data} = brush.getImageData(0, 0, w, h);
  const [red, green, blue] = [0, 1, 2].map(c => Float64Array.from({length: w * h}, (_, i) => data[4 * i + c]));
  const grey = red.map((_, i) => Math.round(0.299 * red[i] + 0.587 * green[i] + 0.114 * blue[i]));
  const pixels = page.digits ? digit(grey, h, w) : middle(channels === 3 ? [red, green, blue] : [grey], h, w, width);
  if (!pixels) return say(`There is no ink in ${file.name}: draw a digit that stands out from its paper.`);
  replace(file.name, pixels);
}

function build() {
  const {body} = document, option = (textContent, value) => make("option", {textContent, value});
  body.className = `${live ? "" : "stored"} ${page.heads > 4 ? "many" : ""}`;
  Object.entries({rows, columns, heads: page.heads}).forEach(([name, n]) => body.style.setProperty(`--${name}`, n));
  $("about").textContent = page.text;
  $("colour").hidden = channels !== 3;
  const pick = key => make("button", {textContent: key, key, role: "radio", onclick: () => choose(key)});
  $("tools").append(...(live ? Object.keys(TOOLS) : ["look"]).map(pick));
  const asker = token => make("button", {textContent: nameOf(token), token, onclick: () => pin(token)});
  $("askers").append(...[...page.prefix.keys(), ...(READ === MEAN ? [MEAN] : [])].map(asker));
  for (let i = 0; i < page.layers; i++) buildLayer(i);
  for (const id of ["one", "other", "filter"]) $(id).append(...page.classes.map(option));
  $("one").onchange = $("other").onchange = renderWhy;
  $("filter").onchange = () => { cell = null; listExamples(); };
  $("scale").onchange = renderMaps;
  $("over").onchange = () => body.classList.toggle("over", $("over").checked);
  $("undo").onclick = () => { if (past.length > 1) state = past.pop(), update(); }; // the first of all is empty
  const given = ({example}) => example === null ? {} : {pixels: pixelsOf(example)}; // a drawing stays
  $("reset").onclick = () => edit(now => Object.assign(now, fresh(), given(now)));
  $("blank").onclick = () => { replace("a drawing", new Uint8Array(COUNT)); choose("draw"); };
  $("file").onchange = () => openFile($("file").files[0]);
  document.onkeydown = event => { if ((event.ctrlKey || event.metaKey) && event.key === "z") $("undo").click(); };
  document.ondragover = document.ondrop = event => {
    event.preventDefault();
    if (live && event.type === "drop" && event.dataTransfer.files.length) openFile(event.dataTransfer.files[0]);
  };
  const board = $("picture");
  board.onkeydown = onKey;
  board.onpointerleave = () => ask(pinned);
  board.onpointerdown = event => begin(pen = pixelAt(board, event), board.setPointerCapture(event.pointerId));
  board.onpointermove = event => {
    if (!pen || tool === "look") return inks() || ask(tokenAt(pixelAt(board, event)));
    for (const one of event.getCoalescedEvents()) use(pen, pen = pixelAt(board, one));
    update();
  };
  board.onpointerup = board.onpointercancel = event => {
    if (pen) end(pixelAt(board, event));
    [pen, adding] = [null, false];
  };
  for (const id of ["tools", "heads", "matrix"]) roving($(id))();
}

function buildLayer(i) {
  const toggle = (name, key, flip = ({off}) => off.delete(key) || off.add(key)) => {
    const toggle = make("input", {type: "checkbox", onchange: () => edit(flip), hidden: !live});
    return {key, toggle, label: make("label", {}, toggle, name.replace(" ", "\u00a0"))};
  };
  const layer = Object.assign([], toggle(`layer ${i}`, `${i}`), {scale: make("span", {className: "small"})});
  for (let j = 0; j < page.heads; j++) {
    const canvas = make("canvas"), caption = make("figcaption", {className: "small"}), name = `layer ${i} head ${j}`;
    const map = {...toggle(`head ${j}`, `${i}.${j}`), name, canvas, caption};
    map.button = make("button", {className: "map marked", onclick: () => showNumbers(map)}, canvas);
    map.button.onpointermove = event => {
      const token = tokenAt(pixelAt(canvas, event)), value = map.values[token - prefix];
      mark("spot", token);
      $("reading").textContent = `${map.name}: ${nameOf(query)} → ${nameOf(token)}: ${value.toFixed(4)}`;
    };
    map.button.onpointerleave = () => renderMaps(mark("spot", null));
    map.box = make("figure", {}, map.label, map.button, caption);
    layer.push(map);
  }
  heads.push(layer);
  const first = make("p", {}, layer.label, layer.scale), className = "layer";
  $("heads").append(make("div", {className}, first, ...layer.map(map => map.box)));
}

// Misclassified first, then the unsure
const isWrong = ({label, prediction}) => label !== null && label !== prediction;
const sorted = page.examples.map((one, i) => ({...one, i}))
  .sort((a, b) => isWrong(b) - isWrong(a) || a.probability - b.probability);

function listExamples() {
  const ofClass = ({label, prediction}) => [String(label ?? prediction), ""].includes($("filter").value);
  const some = sorted.filter(one => cell ? one.label === cell[0] && one.prediction === cell[1] : ofClass(one));
  const wrong = sorted[0].label === null ? "" : `, ${some.filter(isWrong).length} misclassified`;
  $("count").textContent = `${some.length} of ${sorted.length}${wrong}`;
  $("examples").replaceChildren(...some.map(one => {
    const said = `${one.name}: classified as ${page.classes[one.prediction]}, ${percent(one.probability)}`;
    const title = one.label === null ? said : `${said}; truth ${page.classes[one.label]}`, canvas = make("canvas");
    paintPicture(canvas, pixelsOf(one.i));
    const has = {example: one.i, title, ariaLabel: title, className: isWrong(one) ? "wrong" : ""};
    return make("button", {...has, onclick: () => show(one.i)}, canvas);
  }));
  firstExample();
  return some;
}

function buildMatrix({counts, text}) {
  [$("confusions").hidden, $("matrix-text").textContent] = [false, text];
  const button = (count, truth, answer) => make("button", {
    textContent: count, className: truth === answer ? "" : "wrong",
    title: `truth ${page.classes[truth]}, classified as ${page.classes[answer]}: ${count}`, onclick: () => {
      [cell, $("filter").value] = [[truth, answer], ""];
      const [first] = listExamples();
      if (first) show(first.i);
    }});
  $("matrix").append(line("", ...cells(page.classes, "th")), ...counts.map((row, truth) => line(page.classes[truth],
    ...row.map((count, answer) => make("td", {}, count ? button(count, truth, answer) : "")))));
}

if (page.matrix) buildMatrix(page.matrix);
build();
const firstExample = roving($("examples"));
choose("look");
listExamples();
show(sorted[0].i);
