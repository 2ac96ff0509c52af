// What is seen: the answer, the maps of the query, what the answer depends on, the numbers of a map.

function render() {
  $("undo").disabled = past.length < 2; // the first example is where it begins
  for (const button of $("examples").children) button.setAttribute("aria-current", button.example === state.example);
  for (const one of [...heads, ...heads.flat()]) one.toggle.checked = !state.off.has(one.key);
  if (!has(pinned)) pinned = READ;
  if (!has(query)) query = pinned;
  for (const part of [renderAnswer, renderMaps, renderAttention, renderWhy]) part();
}

function renderAnswer() {
  const is = chances(now.logits), was = chances(untouched), [best] = ranking(is), [before] = ranking(was);
  const touched = isTouched(), {label} = state;
  const told = touched ? `Without the changes: ${page.classes[before]}, ${percent(was[before])}` : state.name;
  const truth = label === null ? "" : `, truth ${page.classes[label]}`;
  $("verdict").replaceChildren(make("strong", {textContent: page.classes[best]}), ` ${percent(is[best])}${truth}`,
    make("span", {className: "small", textContent: told}));
  const most = [...ranking(is).slice(0, 8), ...ranking(was).slice(0, 3), label ?? best];
  const some = is.length > 12 ? new Set(most) : is.keys();
  $("classes").replaceChildren(line("", ...cells(["", "prob.", "logit", ...(touched ? ["change"] : [])], "th")));
  for (const i of some) {
    const bar = make("div", {className: "bar"}, make("i"), make("b", {hidden: !touched}));
    bar.children[0].style.width = `${100 * is[i]}%`;
    bar.children[1].style.left = `${100 * was[i]}%`;
    const told = [percent(is[i]), signed(now.logits[i]), ...(touched ? [signed(now.logits[i] - untouched[i])] : [])];
    const className = `${i === label ? "truth" : ""} ${i === best ? "best" : ""}`;
    $("classes").append(Object.assign(line(page.classes[i], make("td", {}, bar), ...cells(told)), {className}));
  }
}

function renderMaps() {
  mark("query", query);
  const perMap = $("scale").value === "map", told = ({low, high}) => `${low.toFixed(3)} to ${high.toFixed(3)}`;
  heads.forEach((layer, i) => {
    const isOff = !now.attention[i];
    layer.forEach((map, j) => {
      map.row = isOff ? [] : rowOf(now.attention[i][j], query);
      map.values = isOff ? new Float32Array(patches).fill(NaN) : inPlace(map.row);
      map.extent = extent(map.values);
    });
    const both = extent(layer.flatMap(map => [...map.values]));
    layer.scale.textContent = isOff ? "off" : perMap ? "" : `scale ${told(both)}`;
    layer.forEach((map, j) => {
      paintMap(map.canvas, map.values, perMap ? map.extent : both);
      map.box.classList.toggle("off", isOff || state.off.has(`${i}.${j}`));
      map.text = isOff ? "off" : `maximum ${map.extent.high.toFixed(3)} at ${spot(map.extent.at)}`;
      const others = isOff ? [] : page.prefix.map((name, token) => `${name} ${map.row[token].toFixed(3)}`);
      const lines = [map.text, ...others, ...(perMap && !isOff ? [`scale ${told(map.extent)}`] : [])];
      map.caption.replaceChildren(...cells(lines, "span"));
      map.button.setAttribute("aria-label", `layer ${i}, head ${j}: ${lines.join(", ")}. Enter shows all numbers`);
    });
  });
  $("reading").textContent = `Query: ${nameOf(query)}. Each map is its row of attention weights.`;
  for (const button of $("askers").children) button.setAttribute("aria-pressed", button.token === query);
}

function renderAttention() {
  const last = now.attention.findLastIndex(Boolean), mean = new Float32Array(now.tokens.length), some = headsOn(last);
  for (const one of some) rowOf(one, READ).forEach((value, i) => { mean[i] += value / some.length; });
  const draw = (id, values, told, found = extent(values)) => {
    paintMap($(id), values, found);
    $(`${id}-text`).textContent = `${told}. Maximum at ${spot(found.at)}.`;
  };
  draw("last", inPlace(mean), `Attention in layer ${last}, mean of the heads`);
  draw("rolled", inPlace(rollout(READ)), "Rollout: attention through all layers");
}

function renderWhy() {
  const [one, other] = pair().map(i => page.classes[i]);
  $("compared").textContent = `Logit of ${one} minus logit of ${other}: ${signed(score(now.logits))}`
    + (isTouched() ? `; without the changes: ${signed(score(untouched))}.` : ".");
  $("after").replaceChildren(...now.after.map((logits, layer) => {
    const [best] = ranking(logits), is = percent(chances(logits)[best]);
    return line(`layer ${layer}`, ...cells([page.classes[best], is, signed(score(logits))]));
  }));
  if (live) renderEffects();
}

// Of each thing left out: by how much the difference of the two logits falls
function renderEffects() {
  const full = score(now.logits), change = {}, known = patch => change[`patch ${prefix + patch}`] ?? NaN;
  task.answers.forEach((logits, job) => { change[task.jobs[job].key] = full - score(logits); });
  const values = Float32Array.from({length: patches}, (_, patch) => known(patch)), {low, high, at} = extent(values);
  const [one, other] = pair().map(i => page.classes[i]), busy = task.answers.length < task.jobs.length;
  paintSigned($("effect"), values, Math.max(high, -low));
  const end = busy ? `${task.answers.length} of ${task.jobs.length} done` : `maximum ${signed(high)} at ${spot(at)}`;
  $("effect-text").textContent = `Effect of leaving out each patch: orange patches support ${one}, blue ones ${other}; ${end}.`;
  const cell = key => {
    const value = change[key], told = state.off.has(key) ? "off" : value === undefined ? "…" : signed(value);
    const td = make("td", {textContent: told});
    if (value) td.style.background = `rgba(${colourOf(value)}, ${Math.min(0.6, Math.abs(value) / 8)})`;
    return td;
  };
  const names = [...heads[0].map((_, j) => `head ${j}`), "layer"];
  $("parts").replaceChildren(line("", ...cells(names, "th")),
    ...heads.map((layer, i) => line(`layer ${i}`, ...layer.map((_, j) => cell(`${i}.${j}`)), cell(`${i}`))));
}

function showNumbers(map) {
  const row = i => [...map.values.subarray(i * columns, (i + 1) * columns)].map(value => value.toFixed(4));
  const total = map.row.reduce((sum, value) => sum + value, 0);
  const others = page.prefix.map((name, i) => `${name} ${(map.row[i] ?? NaN).toFixed(4)}`);
  $("numbers-title").textContent = `${map.name}: weights of the ${nameOf(query)}`;
  $("numbers-text").textContent = `${[...others, "patches as below"].join(", ")}; all together ${total.toFixed(4)}.`;
  $("numbers-table").replaceChildren(line("", ...cells([...Array(columns).keys()], "th")),
    ...[...Array(rows).keys()].map(i => line(i, ...cells(row(i)))));
  $("numbers").showModal();
}
