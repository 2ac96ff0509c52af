// Where a number comes from: what a weight, a logit and a token are made of, step by step, from the numbers of the
// model's own forward pass. Nothing here needs a browser.
"use strict";

const rowAt = (x, row, dim) => x.subarray(row * dim, (row + 1) * dim);
const sumOf = values => values.reduce((sum, value) => sum + value, 0);
const productsOf = (x, y) => Array.from(x, (value, i) => value * y[i]);

// The weight of a key for a query in a head; both count among the tokens that are left.
//   query, key, products: head_dim numbers each; sum of the products; score: the sum divided by root = √head_dim
//   scores: of all keys; largest; exponential: e^(score - largest); denominator: the sum of all of these; weight
//   value: what the key's token hands over; carried: the weight times it
function originOfWeight(model, {inputs}, layer, head, query, key) {
  const block = model.encoder.layers[layer];
  const attention = block.self_attention;
  const dim = model.hidden_dim;
  const d = attention.head_dim;
  const x = block.ln_1.forward(inputs[layer]);
  const q = attention._project(rowAt(x, query, dim), 0, head);
  const keys = attention._project(x, 1, head);
  const k = rowAt(keys, key, d);
  const products = productsOf(q, k);
  const root = Math.sqrt(d);
  const scores = linear(q, keys, null, d).map(sum => sum / root);
  const largest = scores.reduce((most, score) => Math.max(most, score));
  const exponentials = Array.from(scores, score => Math.exp(score - largest));
  const denominator = sumOf(exponentials);
  const weight = exponentials[key] / denominator;
  const value = attention._project(rowAt(x, key, dim), 2, head);
  return {
    query: q,
    key: k,
    products,
    sum: sumOf(products),
    root,
    score: scores[key],
    scores,
    largest,
    exponential: exponentials[key],
    denominator,
    weight,
    value,
    carried: value.map(number => number * weight),
  };
}

// The logit of a class: what the class head is given, the class's row of weights, their products and the bias
function originOfLogit(model, {last}, one) {
  const given = model._features(last);
  const row = rowAt(model.weights["heads.head.weight"], one, given.length);
  const products = productsOf(given, row);
  const bias = model.weights["heads.head.bias"][one];
  return {given, row, products, sum: sumOf(products), bias, logit: sumOf(products) + bias};
}

// What a layer that is on makes of a token, which counts among those that are left; off: as in forward
//   given; attention: what the heads add; between: their sum; hidden: the mlp_dim numbers of the MLP; mlp: what it adds
//   output: what the next layer is given
function originOfLayer(model, {inputs}, layer, token, off) {
  const block = model.encoder.layers[layer];
  const dim = model.hidden_dim;
  const x = inputs[layer];
  const headIsOff = head => off.has(`${layer}.${head}`);
  const [gathered] = block.self_attention.forward(block.ln_1.forward(x), x.length / dim, headIsOff);
  const given = rowAt(x, token, dim);
  const attention = rowAt(gathered, token, dim);
  const between = add(given, attention);
  const normed = block.ln_2.forward(between);
  const hidden = block.mlp._hidden(normed);
  const mlp = block.mlp.forward(normed);
  return {given, attention, between, hidden, mlp, output: add(between, mlp)};
}

// A token as the first layer is given it: a patch's projection, or the learned class token, and the position
function originOfToken(model, image, token) {
  const dim = model.hidden_dim;
  const before = rowAt(model._to_tokens(image), token, dim);
  const position = rowAt(model.encoder.pos_embedding, token, dim);
  const found = {before, position, token: add(before, position)};
  if (token === 0) return found;
  const size = model.in_channels * model.patch_size ** 2;
  return {...found, pixels: rowAt(model._to_patches(image), token - 1, size)};
}
