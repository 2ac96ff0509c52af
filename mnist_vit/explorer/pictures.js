// From pixels, 0 to 255, (c, h, w) in a Uint8Array, to what the model takes; and stored weights. Needs no browser.
"use strict";

// Where each pixel of the picture shown comes from: order[place] is the patch that stands at a place.
function sources([channels, height, width], [rows, columns], order) {
  const from = new Int32Array(channels * height * width), tall = height / rows, wide = width / columns;
  for (let i = 0; i < from.length; i++) {
    const x = i % width, y = Math.floor(i / width) % height, rest = i - x - y * width;
    const patch = order[Math.floor(y / tall) * columns + Math.floor(x / wide)];
    from[i] = rest + (Math.floor(patch / columns) * tall + y % tall) * width + (patch % columns) * wide + x % wide;
  }
  return from;
}

// (c, h, w), 0 to 255 -> what the model takes: less the mean, divided by the spread
const normalise = (pixels, [, height, width], mean, std) => Float32Array.from(pixels, (value, i) => {
  const channel = Math.floor(i / (height * width));
  return (Math.fround(value / 255) - mean[channel]) / std[channel];
});

// A line of soft ink from one point to another in the pixels, in place; ink has a number for each channel.
function stroke(pixels, [, height, width], [x0, y0], [x1, y1], ink) {
  const radius = width / 26, [dx, dy] = [x1 - x0, y1 - y0], part = value => Math.min(1, Math.max(0, value));
  for (let i = 0; i < pixels.length; i++) {
    const x = i % width + 0.5 - x0, y = Math.floor(i / width) % height + 0.5 - y0;
    const along = part((x * dx + y * dy) / (dx * dx + dy * dy || 1));
    const covered = part(radius + 0.5 - Math.hypot(x - along * dx, y - along * dy)), was = pixels[i];
    const colour = ink[Math.floor(i / (height * width))];
    pixels[i] = Math.round(colour > was ? Math.max(was, colour * covered) : was + (colour - was) * covered);
  }
}

// One channel, (h, w) -> (height, width), as Pillow and torchvision do it: a triangle as wide as a new pixel. Of x, a
// part may be taken: from [top, left], which may lie between pixels, so many pixels down and across.
function resize(x, h, w, height, width, [top, left] = [0, 0], [down, across] = [h, w]) {
  const turned = (x, rows, columns, length, start, span) => { // (rows, columns) -> (length, rows)
    const y = new Float64Array(length * rows), scale = span / length, support = Math.max(1, scale);
    for (let i = 0; i < length; i++) {
      const centre = start + (i + 0.5) * scale, first = Math.max(0, Math.floor(centre - support)), part = [];
      for (let j = first; j < Math.min(columns, centre + support); j++) {
        part.push(Math.max(0, 1 - Math.abs(j + 0.5 - centre) / support));
      }
      const total = part.reduce((sum, one) => sum + one, 0);
      for (let row = 0; row < rows; row++) {
        for (let j = 0; j < part.length; j++) y[i * rows + row] += x[row * columns + first + j] * part[j] / total;
      }
    }
    return y;
  };
  return turned(turned(x, h, w, width, left, across), width, h, height, top, down);
}

// The middle square of each channel, resized: what pictures.py calls picture_to_tensor.
function middle(channels, h, w, size) {
  const side = Math.min(h, w), box = [[(h - side) / 2, (w - side) / 2], [side, side]];
  return Uint8Array.from(channels.flatMap(x => [...resize(x, h, w, size, size, ...box).map(Math.round)]));
}

// A drawn digit, grey, in the form that MNIST's have: what pictures.py calls digit_to_tensor; null without any ink.
function digit(grey, height, width) {
  const paper = Float64Array.from(grey).sort()[Math.floor((grey.length - 1) / 2)] / 255;
  if (paper <= 0.5 && height === 28 && width === 28) return Uint8Array.from(grey);
  let ink = Float64Array.from(grey, value => Math.max(0, paper > 0.5 ? paper - value / 255 : value / 255 - paper));
  const most = ink.reduce((max, value) => Math.max(max, value), 0);
  if (most < 0.1) return null;
  ink = ink.map(value => Math.max(0, (value / most - 0.25) / 0.75)); // shadows and the grain of the paper go
  let [top, bottom, left, right] = [height, 0, width, 0];
  ink.forEach((value, i) => {
    if (value === 0) return;
    const x = i % width, y = (i - x) / width;
    [top, bottom, left, right] = [Math.min(top, y), Math.max(bottom, y), Math.min(left, x), Math.max(right, x)];
  });
  const h = bottom - top + 1, w = right - left + 1, scale = 20 / Math.max(h, w);
  const tall = Math.max(1, Math.round(h * scale)), wide = Math.max(1, Math.round(w * scale));
  ink = Float64Array.from({length: h * w}, (_, i) => ink[(top + Math.floor(i / w)) * width + left + i % w]);
  ink = resize(ink, h, w, tall, wide);
  let [sum, y, x, max] = [0, 0, 0, 0];
  ink.forEach((value, i) => {
    [sum, max] = [sum + value, Math.max(max, value)];
    [y, x] = [y + value * Math.floor(i / wide), x + value * (i % wide)];
  });
  const down = Math.min(Math.max(0, Math.round(13.5 - y / sum)), 28 - tall);
  const across = Math.min(Math.max(0, Math.round(13.5 - x / sum)), 28 - wide);
  const pixels = new Uint8Array(28 * 28);
  ink.forEach((value, i) => {
    pixels[(down + Math.floor(i / wide)) * 28 + across + i % wide] = Math.round(value * 255 / max);
  });
  return pixels;
}

// Weights as Python stores them: root * levels as a byte each, and for large ones, after all of these, a second byte.
function unpack(bytes, count, levels) {
  const weights = new Float32Array(count), large = 0.002 * levels * levels - 0.25;
  let more = count;
  for (let i = 0; i < count; i++) {
    const root = bytes[i] >= large ? bytes[i] + bytes[more++] / 255 - 0.5 : bytes[i];
    weights[i] = (root / levels) ** 2;
  }
  return weights;
}
