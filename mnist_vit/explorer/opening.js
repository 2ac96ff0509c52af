// What opens in a dialog: a map, large, with its numbers; and where a number comes from.

// --- tables of vectors ---

const three = value => signedBy(value, 3);

function signedBy(value, decimals) {
  const sign = value < 0 ? "−" : "+";
  return sign + Math.abs(value).toFixed(decimals);
}

// Vectors one below the other, a column for each of their numbers, wrapped to the width of the window
function vectorTable(named) {
  const [first] = Object.values(named);
  const most = numbersInLine();
  const table = make("table", {className: "vectors"});
  for (let from = 0; from < first.length; from += most) {
    const places = [...first.keys()].slice(from, from + most);
    table.append(line("", ...cells(places, "th")));
    for (const [name, values] of Object.entries(named)) table.append(vectorLine(name, values, places));
  }
  return make("div", {className: "scroll"}, table);
}

function vectorLine(name, values, places) {
  const row = line(name);
  row.append(...places.map(i => numberCell(values[i])));
  return row;
}

function numberCell(value) {
  const cell = make("td", {textContent: three(value)});
  cell.style.background = `rgba(${colourOf(value)}, ${Math.min(0.6, Math.abs(value) / 3)})`;
  return cell;
}

// The pixels of a patch as they stand in it, for each channel
function patchTable(pixels) {
  const wide = width / columns;
  const tall = height / rows;
  const table = make("table", {className: "vectors"}, line("", ...cells([...Array(wide).keys()], "th")));
  for (let y = 0; y < channels * tall; y++) {
    const channel = channels === 1 ? "" : `channel ${Math.floor(y / tall)}, `;
    const values = [...pixels.slice(y * wide, (y + 1) * wide)];
    table.append(line(`${channel}row ${y % tall}`, ...values.map(numberCell)));
  }
  return make("div", {className: "scroll"}, table);
}

// As many numbers as there is room for: 4, 8, 16, 32
function numbersInLine() {
  const room = (innerWidth - 130) / 54;
  return limit(2 ** Math.floor(Math.log2(Math.max(1, room))), 4, 32);
}

// Texts and terms
const sentence = (...parts) => make("p", {}, ...parts);

function showOrigin(title, ...content) {
  $("origin-title").textContent = title;
  $("origin-text").replaceChildren(...content);
  if (!$("origin").open) $("origin").showModal();
}

// --- a map ---

// The map large, and all its numbers, each of which opens; pressed: the token whose square was pressed, or null
function showNumbers(map, pressed = null) {
  opened = map;
  const total = map.row.reduce((sum, value) => sum + value, 0);
  const isOne = live && query !== MEAN && map.row.length > 0;
  $("numbers-title").textContent = `${map.name}: weights of the ${nameOf(query)}`;
  $("numbers-text").textContent = `All together ${total.toFixed(4)}.`;
  if (isOne) $("numbers-text").textContent += forHand(" Click a number, or a square of the map, to see where it comes from.");
  paintMap($("large"), map.values, map.drawn);
  const cellOf = (text, token) => make("td", {}, isOne && has(token) ? weightButton(text, token) : text);

  const table = page.prefix.map((name, token) => line(name, cellOf((map.row[token] ?? NaN).toFixed(4), token)));
  table.push(line("", ...cells([...Array(columns).keys()], "th")));
  for (let i = 0; i < rows; i++) {
    const values = [...map.values.subarray(i * columns, (i + 1) * columns)];
    table.push(line(i, ...values.map((value, j) => cellOf(value.toFixed(4), prefix + i * columns + j))));
  }
  $("numbers-table").replaceChildren(...table);
  stopAmongNumbers();
  if (!$("numbers").open) $("numbers").showModal();
  markLarge(pressed);
  buttonOf(pressed)?.focus();
  happened("map", map);
}

const buttonOf = token => [...$("numbers-table").querySelectorAll("button")].find(button => button.token === token);

// The frame around a square of the large map: the one that was pressed, or whose number has the focus
function markLarge(token) {
  marked = token !== null && token >= prefix ? token : null;
  mark("spot", marked, $("numbers"));
  for (const button of $("numbers-table").querySelectorAll("button")) {
    button.classList.toggle("chosen", button.token === token);
  }
  readLarge(marked);
}

// A square of the large map in words
function readLarge(token) {
  const isThere = token !== null && !Number.isNaN(opened.values[token - prefix]);
  $("numbers-spot").textContent = isThere ? `${nameOf(token)}: ${opened.values[token - prefix].toFixed(4)}` : "";
}

let opened = null; // the map that is shown large
let marked = null; // the token of the square that is framed there
const pooledName = page.reads === "mean" ? "mean of the patches" : "class token";

function weightButton(textContent, token) {
  const label = `weight of the ${nameOf(token)}: ${textContent}`;
  return make("button", {textContent, token, ariaLabel: label, onclick: () => openWeight(opened, token)});
}

function openWeight(map, token) {
  const [layer, head] = map.key.split(".").map(Number);
  const at = one => now.tokens.indexOf(one);
  const found = originOfWeight(model, now, layer, head, at(query), at(token));
  happened("weight", found);
  showOrigin(
    `${map.name}: ${nameOf(query)} → ${nameOf(token)}, weight ${found.weight.toFixed(4)}`,
    sentence("The ", term("query"), ` of the ${nameOf(query)} and the `, term("key"), ` of the ${nameOf(token)},`
      + ` ${found.query.length} numbers each, are multiplied number by number:`),
    vectorTable({query: found.query, key: found.key, product: found.products}),
    sentence(`The sum of the products is ${three(found.sum)}. Divided by √${found.query.length} = ${found.root.toFixed(3)}`
      + ` (each has ${found.query.length} numbers) it is the `, term("score"), ` ${three(found.score)}.`),
    sentence(term("softmax", "Softmax"), `: the largest score of the row is ${three(found.largest)}; e to the power of (${three(found.score)}`
      + ` less ${three(found.largest)}) = ${found.exponential.toFixed(4)}. The same for all ${found.scores.length} tokens`
      + ` adds up to ${found.denominator.toFixed(4)}: ${found.exponential.toFixed(4)} / ${found.denominator.toFixed(4)}`
      + ` = ${found.weight.toFixed(4)}, the weight.`),
    sentence("What it carries into the ", term("head output", "output"), ` of head ${head}: the weight times the `,
      term("value"), ` of the ${nameOf(token)}.`),
    vectorTable({value: found.value, carried: found.carried}),
  );
}

// --- a logit, a token ---

function openLogit(one) {
  const found = originOfLogit(model, now, one);
  happened("logit", {...found, one});
  showOrigin(
    `Logit of ${page.classes[one]}: ${three(found.logit)}`,
    sentence("What the ", term("class head"), ` has made of the ${pooledName} after the last layer, ${found.given.length} numbers, is multiplied`
      + ` by the row of weights of ${page.classes[one]}:`),
    vectorTable({given: found.given, row: found.row, product: found.products}),
    sentence(`The sum of the products is ${three(found.sum)}; with the bias ${three(found.bias)} it is the logit`
      + ` ${three(found.logit)}.`),
  );
}

// The pixels as the visitor sees them, row by row, for each channel
function openPicture() {
  const tables = [...Array(channels).keys()].map(channel => {
    const table = make("table", {className: "pixels"});
    for (let y = 0; y < height; y++) {
      const from = (channel * height + y) * width;
      table.append(make("tr", {}, ...[...shown.subarray(from, from + width)].map(pixelCell)));
    }
    return make("div", {className: "scroll"}, table);
  });
  const each = channels === 1 ? "" : `, ${channels} for each pixel`;
  showOrigin("Picture", sentence(`To the model the picture is ${COUNT} numbers${each}: 0 is black, 255 the brightest.`), ...tables);
}

function pixelCell(value) {
  const cell = make("td", {textContent: value});
  cell.style.background = `rgb(${value}, ${value}, ${value})`;
  cell.style.color = inkOn(value);
  return cell;
}

// What can be read on a grey, with a contrast of at least 4.5; quiet on black
function inkOn(grey) {
  if (grey > 117) return "#000";
  return grey > 40 ? "#fff" : "#999";
}

// What a layer makes of the token that is the query, or of the first patch
function openLayer(layer) {
  const token = query === MEAN ? now.tokens[prefix] : query;
  const title = `Layer ${layer}: what it makes of the ${nameOf(token)}`;
  if (!now.attention[layer]) {
    showOrigin(title, sentence("It is switched off: it passes the tokens on as they are."));
    return;
  }
  const found = originOfLayer(model, now, layer, now.tokens.indexOf(token), state.off);
  showOrigin(
    title,
    sentence("The heads gather from all tokens, and the ", term("output projection"), " mixes what they have; the ",
      term("residual connection"), " adds that to what the layer was given:"),
    vectorTable({given: found.given, attention: found.attention, sum: found.between}),
    sentence("The ", term("mlp", "MLP"), ` is given this token alone and makes ${found.hidden.length} numbers of it, none`
      + " below −0.17, as ", term("gelu", "GELU"), " leaves them:"),
    vectorTable({hidden: found.hidden}),
    sentence(`Of these it makes ${found.mlp.length} numbers, which are added too: what the next layer is given.`),
    vectorTable({MLP: found.mlp, output: found.output}),
    sentence(forHand("Another query, another token: click a patch with Look.")),
  );
}

// What the class head is given
function openPooled() {
  const {given} = originOfLogit(model, now, 0);
  const dim = model.hidden_dim;
  const content = [];
  if (READ !== MEAN) {
    content.push(sentence("The class token as the last layer gives it:"), vectorTable({token: rowAt(now.last, 0, dim)}));
  }
  const makes = READ === MEAN ? "The last layer's tokens, after " : "After ";
  const mean = READ === MEAN ? ", the mean over the patches" : "";
  const tanh = model.representation_size ? ", a linear layer and tanh" : "";
  content.push(
    sentence(makes, term("layer norm"), `${mean}${tanh} it is what the last `, term("linear layer"),
      ` of the class head is given, ${given.length} numbers, of which it makes the logits:`),
    vectorTable({given}),
  );
  showOrigin(`The ${pooledName} at the end`, ...content);
}

function openToken(token) {
  const image = normalise(shown, page.image, page.mean, page.std);
  const found = originOfToken(model, image, token);
  happened("token", {...found, at: token});
  const content = [];
  if (found.pixels) {
    content.push(
      sentence(`The ${found.pixels.length} pixels of the ${nameOf(token)}, less the mean and divided by the standard`
        + " deviation of the training images:"),
      patchTable(found.pixels),
      sentence("The projection, a ", term("linear layer"), `, makes ${found.before.length} numbers of them. The `,
        term("position embedding"), " of this place is added:"),
    );
  } else {
    content.push(sentence("The class token is learned and the same for every picture. Its ", term("position embedding"),
      " is added:"));
  }
  const name = found.pixels ? "projected" : "learned";
  content.push(vectorTable({[name]: found.before, position: found.position, token: found.token}));
  const isDouble = !found.pixels && isSame(found.before, found.position);
  if (isDouble) {
    content.push(sentence("Here the two are equal: only their sum is used, so training changes both alike, and they began"
      + " alike."));
  }
  showOrigin(`Token of the ${nameOf(token)}, as layer 0 is given it`, ...content);
}

// --- the drawing of the whole model ---

// A block lights what belongs to it, and is lit by it: both have the same data-part. A click opens it, in a live page.
function buildDrawing() {
  const best = () => ranking(now.logits)[0];
  const firstOr = token => token === MEAN ? prefix : token;
  const blocks = [
    ["picture", "picture", openPicture],
    ["tokens", `${patches} patches and ${prefix === 1 ? "a class token" : `${prefix} tokens`}`, () => openToken(firstOr(query))],
  ];
  if (prefix === 0 || !live) blocks[1][1] = `${prefix + patches} tokens`;
  heads.forEach((_, i) => blocks.push([`layer ${i}`, `layer ${i}: ${page.heads} heads, MLP`, () => openLayer(i)]));
  blocks.push(["pooled", `${pooledName} at the end`, openPooled]);
  if (hasClasses) blocks.push(["answer", "class head, answer", () => openLogit(best())]);
  for (const [part, textContent, onclick] of blocks) {
    const isOpened = live && (part !== "picture" || width <= 32);
    const open = () => {
      onclick();
      happened("block");
    };
    const block = make(isOpened ? "button" : "span", {textContent, onclick: isOpened ? open : null});
    block.dataset.part = part;
    $("model-drawing").append(make("li", {}, block));
  }
  roving($("model-drawing"))();
  for (const kind of ["pointerover", "focusin"]) document.addEventListener(kind, event => light(event.target));
}

function light(target) {
  const part = target.closest?.("[data-part]")?.dataset.part ?? STEPS[step]?.part;
  for (const one of document.querySelectorAll("[data-part]")) one.classList.toggle("lit", one.dataset.part === part);
}

function buildOpening() {
  stopAmongNumbers = roving($("numbers-table"));
  $("numbers-table").addEventListener("focusin", ({target}) => {
    if (target.token !== undefined) markLarge(target.token);
  });
  $("large").onpointermove = event => readLarge(tokenAt(pixelAt($("large"), event)));
  $("large").onpointerleave = () => readLarge(marked);
  $("large").onclick = event => {
    const token = tokenAt(pixelAt($("large"), event));
    markLarge(token);
    if (live && query !== MEAN && has(token)) openWeight(opened, token);
  };
  buildDrawing();
}

let stopAmongNumbers = null;
