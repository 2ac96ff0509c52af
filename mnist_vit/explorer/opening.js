// What opens in a dialog: a map, large, with its numbers; and where a number comes from.

// --- tables of vectors ---

const three = value => signedBy(value, 3);

function signedBy(value, decimals) {
  const sign = value < 0 ? "−" : "+";
  return sign + Math.abs(value).toFixed(decimals);
}

// Vectors one below the other, a column for each of their numbers
function vectorTable(named) {
  const [first] = Object.values(named);
  const table = make("table", {className: "vectors"});
  table.append(line("", ...cells([...first.keys()], "th")));
  for (const [name, values] of Object.entries(named)) {
    const row = line(name, ...cells(Array.from(values, three)));
    [...row.cells].slice(1).forEach((cell, i) => {
      cell.style.background = `rgba(${colourOf(values[i])}, ${Math.min(0.6, Math.abs(values[i]) / 3)})`;
    });
    table.append(row);
  }
  return make("div", {className: "scroll"}, table);
}

// Texts and terms
const sentence = (...parts) => make("p", {}, ...parts);

function showOrigin(title, ...content) {
  $("origin-title").textContent = title;
  $("origin-text").replaceChildren(...content);
  if (!$("origin").open) $("origin").showModal();
}

// --- a map ---

// The map large, and all its numbers, each of which opens
function showNumbers(map) {
  opened = map;
  const total = map.row.reduce((sum, value) => sum + value, 0);
  const isOne = live && query !== MEAN && map.row.length > 0;
  $("numbers-title").textContent = `${map.name}: weights of the ${nameOf(query)}`;
  $("numbers-text").textContent = `All together ${total.toFixed(4)}.`;
  if (isOne) $("numbers-text").textContent += " Click a number, or a square of the map, to see where it comes from.";
  paintMap($("large"), map.values, map.extent);
  const cellOf = (text, token) => make("td", {}, isOne && has(token) ? weightButton(text, token) : text);

  const table = page.prefix.map((name, token) => line(name, cellOf((map.row[token] ?? NaN).toFixed(4), token)));
  table.push(line("", ...cells([...Array(columns).keys()], "th")));
  for (let i = 0; i < rows; i++) {
    const values = [...map.values.subarray(i * columns, (i + 1) * columns)];
    table.push(line(i, ...values.map((value, j) => cellOf(value.toFixed(4), prefix + i * columns + j))));
  }
  $("numbers-table").replaceChildren(...table);
  stopAmongNumbers();
  $("numbers").showModal();
  happened("map", map);
}

let opened = null; // the map that is shown large

function weightButton(textContent, token) {
  const label = `weight of the ${nameOf(token)}: ${textContent}`;
  return make("button", {textContent, ariaLabel: label, onclick: () => openWeight(opened, token)});
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
      + " it is the ", term("score"), ` ${three(found.score)}.`),
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
  const pooled = READ === MEAN ? "mean of the patches" : "class token";
  showOrigin(
    `Logit of ${page.classes[one]}: ${three(found.logit)}`,
    sentence("What the ", term("class head"), ` has made of the ${pooled} after the last layer, ${found.given.length} numbers, is multiplied`
      + ` by the row of weights of ${page.classes[one]}:`),
    vectorTable({given: found.given, row: found.row, product: found.products}),
    sentence(`The sum of the products is ${three(found.sum)}; with the bias ${three(found.bias)} it is the logit`
      + ` ${three(found.logit)}.`),
  );
}

function openToken(token) {
  if (token === MEAN) return;
  const image = normalise(shown, page.image, page.mean, page.std);
  const found = originOfToken(model, image, token);
  happened("token", {...found, at: token});
  const content = [];
  if (found.pixels) {
    content.push(
      sentence(`The ${found.pixels.length} pixels of the ${nameOf(token)}, less the mean and divided by the standard`
        + " deviation of the training images:"),
      vectorTable({pixels: found.pixels}),
      sentence("The projection, a ", term("linear layer"), `, makes ${found.before.length} numbers of them. The `,
        term("position embedding"), " of this place is added:"),
    );
  } else {
    content.push(sentence("The class token is learned and the same for every picture. Its ", term("position embedding"),
      " is added:"));
  }
  const name = found.pixels ? "projected" : "learned";
  content.push(vectorTable({[name]: found.before, position: found.position, token: found.token}));
  showOrigin(`Token of the ${nameOf(token)}, as layer 0 is given it`, ...content);
}

// --- the drawing of the whole model ---

// A block lights what belongs to it, and is lit by it: both have the same data-part. A click opens it.
function buildDrawing() {
  const best = () => ranking(now.logits)[0];
  const into = element => () => element.scrollIntoView({block: "center"});
  const blocks = [
    ["picture", "picture", into($("board"))],
    ["tokens", `${patches} patches and ${prefix === 1 ? "a class token" : `${prefix} tokens`}`, () => openToken(query)],
  ];
  if (prefix === 0 || !live) blocks[1][1] = `${prefix + patches} tokens`;
  heads.forEach((layer, i) => blocks.push([`layer ${i}`, `layer ${i}: ${page.heads} heads, MLP`, into(layer.box)]));
  const pooled = READ === MEAN ? "mean of the patches" : "class token";
  blocks.push(["pooled", pooled, () => pin(READ)]);
  if (hasClasses) blocks.push(["answer", "class head, answer", () => openLogit(best())]);
  for (const [part, textContent, onclick] of blocks) {
    const isOpened = live || !["tokens", "answer"].includes(part);
    const block = make("button", {textContent, onclick: isOpened ? onclick : null});
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
  $("large").onclick = event => {
    const token = tokenAt(pixelAt($("large"), event));
    if (live && query !== MEAN && has(token)) openWeight(opened, token);
  };
  buildDrawing();
}

let stopAmongNumbers = null;
