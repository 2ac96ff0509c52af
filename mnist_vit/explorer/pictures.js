// From pixels, 0 to 255, (c, h, w) in a Uint8Array, to what the model takes; and stored weights. Needs no browser.
"use strict";

const limit = (value, low, high) => Math.min(high, Math.max(low, value));

// Where each pixel of the picture shown comes from: order[place] is the patch that stands at a place.
function sources([channels, height, width], [rows, columns], order) {
  const from = new Int32Array(channels * height * width);
  const tall = height / rows;
  const wide = width / columns;
  for (let i = 0; i < from.length; i++) {
    const x = i % width;
    const y = Math.floor(i / width) % height;
    const channelStart = i - x - y * width;
    const patch = order[Math.floor(y / tall) * columns + Math.floor(x / wide)];
    const fromX = (patch % columns) * wide + x % wide;
    const fromY = Math.floor(patch / columns) * tall + y % tall;
    from[i] = channelStart + fromY * width + fromX;
  }
  return from;
}

// (c, h, w), 0 to 255 -> what the model takes: less the mean, divided by the standard deviation
function normalise(pixels, [, height, width], mean, std) {
  return Float32Array.from(pixels, (value, i) => {
    const channel = Math.floor(i / (height * width));
    return (Math.fround(value / 255) - mean[channel]) / std[channel];
  });
}

// A line of soft ink from one point to another in the pixels, in place; ink has a number for each channel.
function stroke(pixels, [, height, width], [x0, y0], [x1, y1], ink) {
  const radius = width / 26;
  const dx = x1 - x0;
  const dy = y1 - y0;
  for (let i = 0; i < pixels.length; i++) {
    const x = i % width + 0.5 - x0;
    const y = Math.floor(i / width) % height + 0.5 - y0;
    const along = limit((x * dx + y * dy) / (dx * dx + dy * dy || 1), 0, 1);
    const covered = limit(radius + 0.5 - Math.hypot(x - along * dx, y - along * dy), 0, 1);
    const before = pixels[i];
    const colour = ink[Math.floor(i / (height * width))];
    const after = colour > before ? Math.max(before, colour * covered) : before + (colour - before) * covered;
    pixels[i] = Math.round(after);
  }
}

// One axis of a resize, (rows, columns) -> (length, rows): each new pixel is a weighted sum along a row.
function resizeRows(x, rows, columns, length, start, span) {
  const y = new Float64Array(length * rows);
  const scale = span / length;
  const support = Math.max(1, scale);
  for (let i = 0; i < length; i++) {
    const centre = start + (i + 0.5) * scale;
    const first = Math.max(0, Math.floor(centre - support));
    const part = [];
    for (let j = first; j < Math.min(columns, centre + support); j++) {
      part.push(Math.max(0, 1 - Math.abs(j + 0.5 - centre) / support));
    }
    const total = part.reduce((sum, one) => sum + one, 0);
    for (let row = 0; row < rows; row++) {
      for (let j = 0; j < part.length; j++) y[i * rows + row] += x[row * columns + first + j] * part[j] / total;
    }
  }
  return y;
}

// One channel, (h, w) -> (height, width), as Pillow and torchvision do it: a triangle as wide as a new pixel. Of
// x, a part may be taken: from [top, left], which may lie between pixels, so many pixels down and across.
function resize(x, h, w, height, width, [top, left] = [0, 0], [down, across] = [h, w]) {
  const turned = resizeRows(x, h, w, width, left, across);
  return resizeRows(turned, width, h, height, top, down);
}

// The middle square of each channel, resized: what pictures.py calls picture_to_tensor.
function middle(channels, h, w, size) {
  const side = Math.min(h, w);
  const corner = [(h - side) / 2, (w - side) / 2];
  const square = x => [...resize(x, h, w, size, size, corner, [side, side]).map(Math.round)];
  return Uint8Array.from(channels.flatMap(square));
}

// Where there is ink: the first row and column, and the numbers of rows and columns
function inkBox(ink, height, width) {
  let top = height;
  let bottom = 0;
  let left = width;
  let right = 0;
  ink.forEach((value, i) => {
    if (value === 0) return;
    const x = i % width;
    const y = (i - x) / width;
    top = Math.min(top, y);
    bottom = Math.max(bottom, y);
    left = Math.min(left, x);
    right = Math.max(right, x);
  });
  return {top, left, h: bottom - top + 1, w: right - left + 1};
}

// The row and the column of the centre of mass, and the largest value
function centreOf(ink, width) {
  let sum = 0;
  let y = 0;
  let x = 0;
  let max = 0;
  ink.forEach((value, i) => {
    sum += value;
    y += value * Math.floor(i / width);
    x += value * (i % width);
    max = Math.max(max, value);
  });
  return {y: y / sum, x: x / sum, max};
}

// A drawn digit, grey, in the form that MNIST's have: what pictures.py calls digit_to_tensor; null without any ink.
function digit(grey, height, width) {
  const paper = Float64Array.from(grey).sort()[Math.floor((grey.length - 1) / 2)] / 255;
  if (paper <= 0.5 && height === 28 && width === 28) return Uint8Array.from(grey);
  const darker = value => paper > 0.5 ? paper - value / 255 : value / 255 - paper;
  let ink = Float64Array.from(grey, value => Math.max(0, darker(value)));
  const most = ink.reduce((max, value) => Math.max(max, value), 0);
  if (most < 0.1) return null;
  ink = ink.map(value => Math.max(0, (value / most - 0.25) / 0.75)); // shadows and the grain of the paper go

  // The ink alone, 20 pixels at its longer side
  const {top, left, h, w} = inkBox(ink, height, width);
  const scale = 20 / Math.max(h, w);
  const tall = Math.max(1, Math.round(h * scale));
  const wide = Math.max(1, Math.round(w * scale));
  ink = Float64Array.from({length: h * w}, (_, i) => ink[(top + Math.floor(i / w)) * width + left + i % w]);
  ink = resize(ink, h, w, tall, wide);

  // Its centre of mass in the middle of 28 by 28 pixels
  const {y, x, max} = centreOf(ink, wide);
  const down = Math.min(Math.max(0, Math.round(13.5 - y)), 28 - tall);
  const across = Math.min(Math.max(0, Math.round(13.5 - x)), 28 - wide);
  const pixels = new Uint8Array(28 * 28);
  ink.forEach((value, i) => {
    pixels[(down + Math.floor(i / wide)) * 28 + across + i % wide] = Math.round(value * 255 / max);
  });
  return pixels;
}

// Weights as Python stores them: root * levels as a byte each, and for large ones, after all of these, a second byte.
function unpack(bytes, count, levels) {
  const weights = new Float32Array(count);
  const large = 0.002 * levels * levels - 0.25;
  let next = count; // the next second byte
  for (let i = 0; i < count; i++) {
    let root = bytes[i];
    if (root >= large) {
      root += bytes[next] / 255 - 0.5;
      next++;
    }
    weights[i] = (root / levels) ** 2;
  }
  return weights;
}
