// What is drawn: pictures, maps, frames around patches; and how arrow keys move among many small buttons.

const $ = id => document.getElementById(id);
const page = JSON.parse($("data").textContent), live = page.config !== null;
const [rows, columns] = page.grid, [channels, height, width] = page.image, prefix = page.prefix.length;
const patches = rows * columns, MEAN = -1;

// A new element; names of files and classes are always text in it, never HTML.
function make(tag, properties = {}, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
}

const chances = logits => softmax(Float64Array.from(logits), logits.length);
const ranking = logits => [...logits.keys()].sort((a, b) => logits[b] - logits[a]);
const cells = (texts, tag = "td") => texts.map(textContent => make(tag, {textContent}));
const line = (head, ...rest) => make("tr", {}, make("th", {textContent: head}), ...rest);
const percent = value => `${(100 * value).toFixed(value > 0.9995 && value < 1 ? 2 : 1)} %`;
const signed = value => (value < -0.005 ? "−" : "+") + Math.abs(value).toFixed(2);
const spot = patch => `row ${Math.floor(patch / columns)}, column ${patch % columns}`;
const nameOf = token => token === MEAN ? "mean of patches" : page.prefix[token] ?? `patch in ${spot(token - prefix)}`;
const bytesOf = id => Uint8Array.from(atob($(id).textContent), letter => letter.charCodeAt(0));

// One pixel for each of w * h; colourOf(i) is [red, green, blue, alpha].
function paint(canvas, w, h, colourOf) {
  if (canvas.width !== w || canvas.height !== h) [canvas.width, canvas.height] = [w, h];
  const picture = new ImageData(w, h);
  for (let i = 0; i < w * h; i++) picture.data.set(colourOf(i), 4 * i);
  canvas.getContext("2d").putImageData(picture, 0, 0);
}

function paintPicture(canvas, pixels) {
  const [red, green, blue] = (channels < 3 ? [0, 0, 0] : [0, 1, 2]).map(channel => channel * height * width);
  paint(canvas, width, height, i => [pixels[red + i], pixels[green + i], pixels[blue + i], 255]);
}

// values: one for each patch, nan where there is none
function paintMap(canvas, values, {low, high}) {
  const scale = 255 / Math.max(high - low, live ? 1e-9 : 0.004), clear = [0, 0, 0, 0]; // no finer than what is stored
  paint(canvas, columns, rows, i => {
    const at = 3 * Math.round(Math.min(255, Math.max(0, (values[i] - low) * scale)));
    return Number.isNaN(values[i]) ? clear : [page.colours[at], page.colours[at + 1], page.colours[at + 2], 255];
  });
}

// Above 0 orange, below blue; the larger, the less of the paper is seen.
const colourOf = value => value > 0 ? [224, 112, 0] : [40, 120, 225];
function paintSigned(canvas, values, most) {
  paint(canvas, columns, rows, i => [...colourOf(values[i]), 255 * Math.abs(values[i] || 0) / (most || 1)]);
}

function extent(values) {
  let low = Infinity, high = -Infinity, at = 0;
  values.forEach((value, i) => {
    if (value < low) low = value;
    if (value > high) [high, at] = [value, i];
  });
  return {low, high, at};
}

// The frames around a patch, in the picture and in every map: "query", and "spot" for what is pointed at.
function mark(kind, token) {
  const there = token !== null && token >= prefix, {style, classList} = document.body;
  classList.toggle(kind, there);
  style.setProperty(`--${kind}-row`, there ? Math.floor((token - prefix) / columns) : 0);
  style.setProperty(`--${kind}-column`, there ? (token - prefix) % columns : 0);
}

// One tab stop for many buttons; arrow keys go to the next one, in the row or the column.
const ARROWS = {ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1]};
function roving(container) {
  const all = () => [...container.querySelectorAll("button")];
  const only = (chosen = all()[0]) => all().forEach(button => { button.tabIndex = button === chosen ? 0 : -1; });
  container.addEventListener("focusin", event => event.target.tagName === "BUTTON" && only(event.target));
  container.addEventListener("keydown", event => {
    const step = ARROWS[event.key], buttons = all(), at = buttons.indexOf(event.target);
    if (!step || at < 0) return;
    event.preventDefault();
    const top = button => button.getBoundingClientRect().top;
    const inRow = buttons.filter(button => Math.abs(top(button) - top(event.target)) < 5).length;
    buttons[at + step[0] + step[1] * inRow]?.focus();
  });
  return only;
}
