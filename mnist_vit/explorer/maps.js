// What is drawn: pictures, maps, frames around patches; and how arrow keys move among many small buttons.

const $ = id => document.getElementById(id);
const page = JSON.parse($("data").textContent);
const live = page.config !== null;
const hasClasses = page.classes.length > 0;
const [rows, columns] = page.grid;
const [channels, height, width] = page.image;
const prefix = page.prefix.length;
const patches = rows * columns;
const MEAN = -1; // the query that stands for the mean over the patches

// What is told of a mouse, as a finger does it: it taps, and points at nothing without a tap.
const isFinger = matchMedia("(pointer: coarse)").matches;

function forHand(text) {
  if (!isFinger) return text;
  return text.replace(" Click to keep it.", "").replace(/\b(Click|Point at)\b/g, "Tap").replace(/\bclick\b/g, "tap");
}

// A new element; names of files and classes are always text in it, never HTML.
function make(tag, properties = {}, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
}

const cells = (texts, tag = "td") => texts.map(textContent => make(tag, {textContent}));
const line = (head, ...rest) => make("tr", {}, make("th", {textContent: head}), ...rest);

const probabilities = logits => softmax(Float64Array.from(logits), logits.length);
const ranking = logits => [...logits.keys()].sort((a, b) => logits[b] - logits[a]);

function percent(value) {
  if (!Number.isFinite(value)) return "–";
  const decimals = value > 0.9995 && value < 1 ? 2 : 1;
  return `${(100 * value).toFixed(decimals)} %`;
}

function signed(value) {
  const sign = value < -0.005 ? "−" : "+";
  return sign + Math.abs(value).toFixed(2);
}

const spot = patch => `row ${Math.floor(patch / columns)}, column ${patch % columns}`;

function nameOf(token) {
  if (token === MEAN) return "mean of patches";
  return page.prefix[token] ?? `patch in ${spot(token - prefix)}`;
}

const bytesOf = id => Uint8Array.from(atob($(id).textContent), letter => letter.charCodeAt(0));

// One pixel for each of w * h; colourAt(i) is [red, green, blue, alpha].
function paint(canvas, w, h, colourAt) {
  if (canvas.width !== w || canvas.height !== h) {
    canvas.width = w;
    canvas.height = h;
  }
  const picture = new ImageData(w, h);
  for (let i = 0; i < w * h; i++) picture.data.set(colourAt(i), 4 * i);
  canvas.getContext("2d").putImageData(picture, 0, 0);
}

function paintPicture(canvas, pixels) {
  const used = channels < 3 ? [0, 0, 0] : [0, 1, 2];
  const [red, green, blue] = used.map(channel => channel * height * width);
  paint(canvas, width, height, i => [pixels[red + i], pixels[green + i], pixels[blue + i], 255]);
}

// values: one for each patch, nan where there is none
function paintMap(canvas, values, {low, high}) {
  const finest = live ? 1e-9 : 0.004; // no finer than what is stored
  const scale = 255 / Math.max(high - low, finest);
  paint(canvas, columns, rows, i => {
    if (Number.isNaN(values[i])) return [0, 0, 0, 0];
    const level = Math.min(255, Math.max(0, (values[i] - low) * scale));
    const at = 3 * Math.round(level);
    return [page.colours[at], page.colours[at + 1], page.colours[at + 2], 255];
  });
}

// Above 0 orange, below blue; the larger, the less of the paper is seen.
const colourOf = value => value > 0 ? [224, 112, 0] : [40, 120, 225];

function paintSigned(canvas, values, most) {
  paint(canvas, columns, rows, i => [...colourOf(values[i]), 255 * Math.abs(values[i] || 0) / (most || 1)]);
}

// The smallest and the largest value, and where the largest is
function extent(values) {
  let low = Infinity;
  let high = -Infinity;
  let at = 0;
  values.forEach((value, i) => {
    if (value < low) low = value;
    if (value > high) {
      high = value;
      at = i;
    }
  });
  return {low, high, at};
}

// The frames around a patch, in the picture and in every map: "query", and "spot" for what is pointed at.
function mark(kind, token, {style, classList} = document.body) {
  const isPatch = token !== null && token >= prefix;
  const patch = isPatch ? token - prefix : 0;
  classList.toggle(kind, isPatch);
  style.setProperty(`--${kind}-row`, Math.floor(patch / columns));
  style.setProperty(`--${kind}-column`, patch % columns);
}

// One tab stop for many buttons; arrow keys go to the next one, in the row or the column.
const ARROWS = {ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1]};

function roving(container) {
  const all = () => [...container.querySelectorAll("button")];
  const makeOnlyStop = (chosen = all()[0]) => {
    for (const button of all()) button.tabIndex = button === chosen ? 0 : -1;
  };
  container.addEventListener("focusin", event => {
    if (event.target.tagName === "BUTTON") makeOnlyStop(event.target);
  });
  container.addEventListener("keydown", event => {
    const step = ARROWS[event.key];
    const buttons = all();
    const at = buttons.indexOf(event.target);
    if (!step || at < 0) return;
    event.preventDefault();
    const top = button => button.getBoundingClientRect().top;
    const inRow = buttons.filter(button => Math.abs(top(button) - top(event.target)) < 5).length;
    buttons[at + step[0] + step[1] * inRow]?.focus();
  });
  return makeOnlyStop;
}
