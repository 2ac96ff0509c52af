// What is seen: the answer, the maps of the query, what the answer depends on, the numbers of a map.

function render() {
  $("undo").disabled = past.length < 2; // the first example is where it begins
  for (const button of $("examples").children) button.setAttribute("aria-current", button.example === state.example);
  for (const part of [...heads, ...heads.flat()]) part.toggle.checked = !state.off.has(part.key);
  if (!has(pinned)) pinned = READ;
  if (!has(query)) query = pinned;
  renderMaps();
  if (isQuerySaid) sayQuery();
  renderAttention();
  if (!hasClasses) return;
  renderAnswer();
  renderWhy();
  happened("render");
}

// Only black: the picture holds nothing.
const isBlank = () => shown.every(value => value === 0);

const isAnswerWrong = () => truth() !== null && truth() !== ranking(now.logits)[0];

// Beside the answer; "" where no truth is known
function truthInWords() {
  if (truth() === null) return "";
  return isAnswerWrong() ? `✗ wrong: truth ${page.classes[truth()]}` : `truth ${page.classes[truth()]}`;
}

function verdictOf(is, best) {
  if (!now.logits.every(Number.isFinite)) {
    const told = "A number grew too large for 32 bits on the way: there is no answer for this picture.";
    return ["no answer", "", told];
  }
  if (isBlank()) {
    const told = `No class means "nothing": the model still prefers ${page.classes[best]}, ${percent(is[best])}.`;
    return ["nothing drawn yet", "", told];
  }
  return [page.classes[best], percent(is[best]), state.name, truthInWords()];
}

function renderAnswer() {
  const is = probabilities(now.logits);
  const was = probabilities(untouched);
  const [best] = ranking(is);
  const [before] = ranking(was);
  let [title, numbers, source, known = ""] = verdictOf(is, best);
  if (isTouched()) source = `Without the changes (${state.name}): ${page.classes[before]}, ${percent(was[before])}`;
  $("verdict").replaceChildren(
    make("strong", {textContent: title}),
    ` ${numbers}`,
    known && ", ",
    make("span", {textContent: known, className: "truth"}),
    make("span", {className: "small", textContent: source}),
  );
  $("verdict").classList.toggle("wrong", known !== "" && isAnswerWrong());
  $("classes").classList.toggle("faint", isBlank());
  renderClasses(is, was, best);
}

// Of more than twelve classes those that matter
function renderClasses(is, was, best) {
  const label = truth();
  const mostLikely = [...ranking(is).slice(0, 8), ...ranking(was).slice(0, 3), label ?? best];
  const shownClasses = is.length > 12 ? new Set(mostLikely) : is.keys();
  $("change").hidden = !isTouched();
  $("classes").replaceChildren();
  for (const i of shownClasses) {
    const row = classRow(i, is[i], was[i]);
    row.classList.toggle("truth", i === label);
    row.classList.toggle("best", i === best);
    $("classes").append(row);
  }
  stopAmongClasses();
}

// A class: its probability as a bar, with a mark for the one before the changes, and its numbers
function classRow(i, is, was) {
  const bar = make("i");
  bar.style.width = `${100 * is}%`;
  const before = make("b", {hidden: !isTouched()});
  before.style.left = `${100 * was}%`;
  const title = isTouched() ? `${percent(is)}; the mark: ${percent(was)} without the changes` : "";
  const bars = make("td", {}, make("div", {className: "bar", title}, bar, before));
  const row = line(page.classes[i], bars, ...cells([percent(is)]), make("td", {}, logitOf(i)));
  if (live) makeRival(row, bars, i);
  if (isTouched()) row.append(...cells([signed(now.logits[i] - untouched[i])]));
  return row;
}

// The name of a class, or its bar, chooses it to be compared with the answer.
function makeRival(row, bars, i) {
  const compare = () => {
    $("other").value = i;
    renderWhy();
  };
  const name = page.classes[i];
  const button = make("button", {textContent: name, title: `Why not ${name}?`, onclick: compare});
  row.rival = i;
  row.querySelector("th").replaceChildren(button);
  bars.onclick = compare;
}

// A logit; in a live page a button that tells where it comes from
function logitOf(i) {
  const textContent = signed(now.logits[i]);
  if (!live) return textContent;
  const ariaLabel = `logit of ${page.classes[i]}: ${textContent}. Where does it come from?`;
  return make("button", {textContent, ariaLabel, onclick: () => openLogit(i)});
}

// Of the squares only: the class token has no square, and may have more.
function scaleOf({low, high}) {
  const squares = prefix === 0 ? "" : " of the patches";
  return `scale${squares} ${low.toFixed(3)} to ${high.toFixed(3)}`;
}

function renderMaps() {
  mark("query", query);
  const perMap = $("scale").value === "map";
  heads.forEach((layer, i) => renderLayer(layer, i, perMap));
  $("reading").textContent = `Query: ${nameOf(query)}. Each map is its row of attention weights.`;
  for (const button of $("askers").children) button.setAttribute("aria-pressed", button.token === query);
}

function renderLayer(layer, i, perMap) {
  const isOff = !now.attention[i];
  layer.forEach((map, j) => {
    map.row = isOff ? [] : rowOf(now.attention[i][j], query);
    map.values = isOff ? new Float32Array(patches).fill(NaN) : inPlace(map.row);
    map.extent = extent(map.values);
  });
  const common = extent(layer.flatMap(map => [...map.values]));
  layer.scale.textContent = perMap ? "" : scaleOf(common);
  if (isOff) layer.scale.textContent = "off";
  layer.forEach((map, j) => {
    map.drawn = perMap ? map.extent : common;
    paintMap(map.canvas, map.values, map.drawn);
    map.box.classList.toggle("off", isOff || state.off.has(`${i}.${j}`));
    renderCaption(map, i, j, isOff, perMap);
  });
}

function renderCaption(map, i, j, isOff, perMap) {
  const lines = [];
  if (isOff) {
    map.text = "off";
    lines.push(map.text);
  } else {
    map.text = `maximum ${map.extent.high.toFixed(3)} at ${spot(map.extent.at)}`;
    if (state.off.has(map.key)) map.text = `off: adds nothing; ${map.text}`;
    lines.push(map.text, ...page.prefix.map((name, token) => `${name} ${map.row[token].toFixed(3)}`));
    if (perMap) lines.push(scaleOf(map.extent));
  }
  map.caption.replaceChildren(...cells(lines, "span"));
  map.button.setAttribute("aria-label", `layer ${i}, head ${j}: ${lines.join(", ")}. Enter enlarges it`);
}

function renderAttention() {
  const last = now.attention.findLastIndex(Boolean);
  const some = headsOn(last);
  const mean = new Float32Array(now.tokens.length);
  for (const weights of some) {
    rowOf(weights, READ).forEach((value, i) => { mean[i] += value / some.length; });
  }
  drawSummary("last", inPlace(mean), `Attention in layer ${last}, mean of the heads`);
  drawSummary("rolled", inPlace(rollout(READ)), "Attention through all layers");
}

function drawSummary(id, values, title) {
  const found = extent(values);
  drawnValues[id] = values;
  paintMap($(id), values, found);
  $(`${id}-text`).textContent = `${title}. Maximum at ${spot(found.at)}.`;
}

function renderWhy() {
  if ($("other").value === String(pair()[0])) $("other").value = ""; // no class beside itself
  const [one, other] = pair().map(i => page.classes[i]);
  const before = isTouched() ? `; without the changes: ${signed(score(untouched))}.` : ".";
  $("why-not").textContent = `Why ${one} and not ${other}?`;
  for (const row of $("classes").rows) row.cells[0].firstChild.ariaPressed = row.rival === pair()[1];
  $("compared").textContent = `Logit of ${one} minus logit of ${other}: ${signed(score(now.logits))}${before}`;
  $("after").replaceChildren(...now.after.map((logits, layer) => {
    const [best] = ranking(logits);
    const probability = percent(probabilities(logits)[best]);
    return line(`layer ${layer}`, ...cells([page.classes[best], probability, signed(score(logits))]));
  }));
  if (live) renderEffects();
  renderRelevance();
}

// How much each patch of an example speaks for its first class, rather than for the second
function relevanceOf(example) {
  const {relevance: most} = page.examples[example];
  const levels = relevances.subarray(example * patches, (example + 1) * patches);
  return Float32Array.from(levels, level => level * most / 127);
}

function renderRelevance() {
  $("relevances").hidden = page.relevance === null;
  if (page.relevance === null) return;
  const reason = whyNoRelevance();
  $("relevances").classList.toggle("absent", reason !== "");
  $("relevance-text").textContent = reason || drawRelevance();
}

// Why there is no stored relevance for what is shown; "" if there is
function whyNoRelevance() {
  if (!relevances) return page.relevance;
  if (state.example === null || isTouched()) {
    return "Stored for the examples as they are, not for a drawing or a change: relevance needs gradients, which this"
      + " page does not compute. What each patch does when it is left out is computed for any picture.";
  }
  const [one, other] = firstPair();
  if (isSame(pair(), [one, other])) return "";
  const [chosen, against] = pair().map(i => page.classes[i]);
  return `Relevance needs gradients, which this page does not compute, and was stored for one pair only,`
    + ` ${page.classes[one]} rather than ${page.classes[other]}: why ${chosen} rather than ${against} is answered by leaving`
    + " patches out.";
}

function drawRelevance() {
  const values = relevanceOf(state.example);
  const {high, at} = extent(values);
  drawSigned("relevance-map", values, score(now.logits, firstPair()));
  const [one, other] = firstPair().map(i => page.classes[i]);
  const rather = one === other ? "" : ` rather than ${other}`;
  return `The logit difference, followed back through the layers to the patches, computed in PyTorch: orange patches speak`
    + ` for ${one}${rather}, blue ones against; maximum ${signed(high)} at ${spot(at)}${shareOf(values, one)}.`;
}

const drawnValues = {}; // of each map below, by its id

const FAINT = 0.01; // of a logit difference: a map of less than this is pale

// The darkest colour is the map's own largest value: the scale beneath says how much that is, beside the whole difference.
function drawSigned(id, values, whole) {
  const {low, high} = extent(values);
  const most = Math.max(high, -low, FAINT);
  const end = most.toFixed(most < 0.1 ? 3 : 2);
  drawnValues[id] = values;
  paintSigned($(id), values, most);
  $(`${id}-scale`).replaceChildren(`−${end} `, make("i"), ` +${end}; whole difference: ${signed(whole)}`);
}

// Of each thing left out: by how much the difference of the two logits falls
function renderEffects() {
  const full = score(now.logits);
  const change = {};
  task.answers.forEach((logits, job) => { change[task.jobs[job].key] = full - score(logits); });
  renderPatchEffects(change);
  const titles = [...heads[0].map((_, j) => `head ${j}`), "layer"];
  const rowOfLayer = (layer, i) => {
    const keys = [...layer.map((_, j) => `${i}.${j}`), `${i}`];
    return line(`layer ${i}`, ...keys.map(key => effectCell(key, change[key])));
  };
  $("parts").replaceChildren(line("", ...cells(titles, "th")), ...heads.map(rowOfLayer));
}

function renderPatchEffects(change) {
  const values = Float32Array.from({length: patches}, (_, patch) => change[`patch ${prefix + patch}`] ?? NaN);
  const whole = score(now.logits);
  drawSigned("effect", values, whole);
  const [one, other] = pair().map(i => page.classes[i]);
  const {answers, jobs} = task;
  const isBusy = answers.length < jobs.length;
  const progress = `${answers.length} of ${jobs.length} runs done, each without one patch, head or layer`;
  const end = isBusy ? progress : largestEffect(values, whole);
  $("effect-text").textContent =
    `Why ${one} rather than ${other}: by how much the difference falls without this one patch. Orange patches support ${one},`
    + ` blue ones ${other}; ${end}.`;
}

// The largest effect of one patch, beside the whole difference
function largestEffect(values, whole) {
  const {high, at} = extent(values);
  if (!Number.isFinite(high)) return "no patch is left";
  const share = Math.abs(whole) < 0.005 ? "" : ` of ${signed(whole)} (${percent(high / Math.abs(whole))})`;
  const isSmall = high < Math.abs(whole) / 4;
  return `the largest effect is ${signed(high)}${share}, at ${spot(at)}`
    + (isSmall ? ". Neighbouring patches stand in for each other, so one alone says little: Remove several together" : "");
}

// How few patches have half of all that speaks for a class
function shareOf(values, one) {
  const support = [...values].filter(value => value > 0).sort((a, b) => b - a);
  const half = support.reduce((sum, value) => sum + value, 0) / 2;
  let count = 0;
  for (let sum = 0; sum < half; count++) sum += support[count];
  const patchesHave = count === 1 ? "1 patch has" : `${count} patches have`;
  return count > 0 ? `; ${patchesHave} half of all that speaks for ${one}` : "";
}

function effectCell(key, value) {
  let text = value === undefined ? "…" : signed(value);
  if (state.off.has(key)) text = "off";
  const cell = make("td", {textContent: text});
  if (value) cell.style.background = `rgba(${colourOf(value)}, ${Math.min(0.6, Math.abs(value) / 8)})`;
  return cell;
}
