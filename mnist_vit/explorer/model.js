// The same model a third time: what model.py says in PyTorch, in plain JavaScript and for one picture.
// Names, order and shapes are model.py's. A tensor is a flat Float32Array. tokens is seq_length, or less if
// patches are left out. Nothing here needs a browser.
"use strict";

// The options of a config and the values that this file knows; null: any. Another option is an error.
const KNOWN_OPTIONS = {
  image_size: null,
  patch_size: null,
  num_layers: null,
  num_heads: null,
  hidden_dim: null,
  mlp_dim: null,
  dropout: null,
  attention_dropout: null,
  num_classes: null,
  representation_size: null,
  in_channels: null,
  pool: ["token", "mean"],
  eps: null,
};

function checkOptions(config) {
  for (const [name, value] of Object.entries(config)) {
    const values = KNOWN_OPTIONS[name];
    const isKnown = values === null || values?.includes(value);
    if (!isKnown) throw new Error(`This page cannot run the model: it does not know ${name}=${value}`);
  }
}

// x @ weight^T + bias: (rows, dim) @ (out, dim)^T -> (rows, out). Every product of the model is this one.
function linear(x, weight, bias, dim) {
  const rows = x.length / dim;
  const out = weight.length / dim;
  const y = new Float32Array(rows * out);
  for (let row = 0; row < rows; row++) {
    const from = row * dim;
    const to = from + dim;
    let o = 0;
    for (; o + 3 < out; o += 4) { // four at once: one number of x serves all of them
      let w0 = o * dim, w1 = w0 + dim, w2 = w1 + dim, w3 = w2 + dim;
      let s0 = 0, s1 = 0, s2 = 0, s3 = 0;
      for (let i = from; i < to; i++) {
        const value = x[i];
        s0 += value * weight[w0++];
        s1 += value * weight[w1++];
        s2 += value * weight[w2++];
        s3 += value * weight[w3++];
      }
      y.set([s0, s1, s2, s3], row * out + o);
    }
    for (; o < out; o++) {
      let sum = 0;
      for (let i = from, w = o * dim; i < to; i++) sum += x[i] * weight[w++];
      y[row * out + o] = sum;
    }
    if (bias) {
      for (let i = 0; i < out; i++) y[row * out + i] += bias[i];
    }
  }
  return y;
}

function add(x, y) {
  return x.map((value, i) => value + y[i]);
}

// (rows, columns) -> (columns, rows)
function transpose(x, rows, columns) {
  return x.map((_, i) => x[i % rows * columns + Math.floor(i / rows)]);
}

// Each row becomes positive and sums to 1, in place.
function softmax(x, columns) {
  for (let from = 0; from < x.length; from += columns) {
    const to = from + columns;
    const max = x.subarray(from, to).reduce((most, value) => Math.max(most, value));
    let sum = 0;
    for (let i = from; i < to; i++) {
      x[i] = Math.exp(x[i] - max);
      sum += x[i];
    }
    for (let i = from; i < to; i++) x[i] /= sum;
  }
  return x;
}

// The mean over the rows: (rows, columns) -> (columns)
function meanOfRows(x, columns) {
  const rows = x.length / columns;
  const y = new Float64Array(columns);
  for (let i = 0; i < x.length; i++) y[i % columns] += x[i] / rows;
  return Float32Array.from(y);
}

// x times the probability that a normal variable is below x. erf: Abramowitz & Stegun 7.1.26, to within 1.5e-7.
function gelu(x) {
  const z = Math.abs(x) / Math.SQRT2;
  const t = 1 / (1 + 0.3275911 * z);
  let series = 1.061405429;
  for (const factor of [-1.453152027, 1.421413741, -0.284496736, 0.254829592]) series = factor + t * series;
  const tail = t * series * Math.exp(-z * z) / 2;
  return x * (x < 0 ? tail : 1 - tail);
}

class LayerNorm {
  constructor(weights, name, eps) {
    this.weight = weights[name + ".weight"];
    this.bias = weights[name + ".bias"];
    this.eps = eps;
  }

  // (tokens, hidden_dim) -> (tokens, hidden_dim)
  forward(x) {
    const dim = this.weight.length;
    const y = new Float32Array(x.length);
    for (let from = 0; from < x.length; from += dim) {
      let mean = 0;
      for (let i = 0; i < dim; i++) mean += x[from + i] / dim;
      let variance = 0;
      for (let i = 0; i < dim; i++) variance += (x[from + i] - mean) ** 2 / dim;
      const scale = 1 / Math.sqrt(variance + this.eps);
      for (let i = 0; i < dim; i++) y[from + i] = (x[from + i] - mean) * scale * this.weight[i] + this.bias[i];
    }
    return y;
  }
}

class MLPBlock {
  constructor(weights, name) {
    this.weight_1 = weights[name + ".0.weight"];
    this.bias_1 = weights[name + ".0.bias"];
    this.weight_2 = weights[name + ".3.weight"];
    this.bias_2 = weights[name + ".3.bias"];
  }

  // (tokens, hidden_dim) -> (tokens, mlp_dim)
  _hidden(x) {
    return linear(x, this.weight_1, this.bias_1, this.bias_2.length).map(gelu);
  }

  // (tokens, hidden_dim) -> (tokens, mlp_dim) -> (tokens, hidden_dim)
  forward(x) {
    return linear(this._hidden(x), this.weight_2, this.bias_2, this.bias_1.length);
  }
}

class MultiHeadAttention {
  constructor(weights, name, embed_dim, num_heads) {
    this.embed_dim = embed_dim;
    this.num_heads = num_heads;
    this.head_dim = embed_dim / num_heads;
    this.in_proj_weight = weights[name + ".in_proj_weight"];
    this.in_proj_bias = weights[name + ".in_proj_bias"];
    this.weight = weights[name + ".out_proj.weight"];
    this.bias = weights[name + ".out_proj.bias"];
  }

  // The rows of one head in W_q, W_k or W_v (part 0, 1 or 2): (tokens, embed_dim) -> (tokens, head_dim)
  _project(x, part, head) {
    const dim = this.embed_dim;
    const from = part * dim + head * this.head_dim;
    const to = from + this.head_dim;
    return linear(x, this.in_proj_weight.subarray(from * dim, to * dim), this.in_proj_bias.subarray(from, to), dim);
  }

  // The first `queries` tokens are the queries, all are keys: (tokens, embed_dim) -> (queries, embed_dim), and
  // the weights of each head, (queries, tokens). A head that is switched off adds nothing.
  forward(x, queries, headIsOff) {
    const {embed_dim, head_dim, num_heads} = this;
    const tokens = x.length / embed_dim;
    const weights = [];
    const together = new Float32Array(queries * embed_dim);
    for (let head = 0; head < num_heads; head++) {
      const q = this._project(x.subarray(0, queries * embed_dim), 0, head).map(value => value / Math.sqrt(head_dim));
      const k = this._project(x, 1, head);
      const v = this._project(x, 2, head);
      // (queries, head_dim) @ (tokens, head_dim)^T -> (queries, tokens)
      weights.push(softmax(linear(q, k, null, head_dim), tokens));
      if (headIsOff(head)) continue;
      // (queries, tokens) @ (tokens, head_dim) -> (queries, head_dim)
      const output = linear(weights[head], transpose(v, tokens, head_dim), null, tokens);
      for (let i = 0; i < queries; i++) {
        together.set(output.subarray(i * head_dim, (i + 1) * head_dim), i * embed_dim + head * head_dim);
      }
    }
    return [linear(together, this.weight, this.bias, embed_dim), weights];
  }
}

class EncoderBlock {
  constructor(weights, name, {hidden_dim, num_heads, eps}) {
    this.ln_1 = new LayerNorm(weights, name + ".ln_1", eps);
    this.self_attention = new MultiHeadAttention(weights, name + ".self_attention", hidden_dim, num_heads);
    this.ln_2 = new LayerNorm(weights, name + ".ln_2", eps);
    this.mlp = new MLPBlock(weights, name + ".mlp");
  }

  // (tokens, hidden_dim) -> (queries, hidden_dim), and the attention weights
  forward(input, queries, headIsOff) {
    let [x, weights] = this.self_attention.forward(this.ln_1.forward(input), queries, headIsOff);
    x = add(x, input);
    const y = this.mlp.forward(this.ln_2.forward(x));
    return [add(x, y), weights];
  }
}

class Encoder {
  constructor(weights, config) {
    this.pos_embedding = weights["encoder.pos_embedding"];
    this.layers = [];
    for (let i = 0; i < config.num_layers; i++) {
      this.layers.push(new EncoderBlock(weights, `encoder.layers.encoder_layer_${i}`, config));
    }
    this.ln = new LayerNorm(weights, "encoder.ln", config.eps);
  }
}

class VisionTransformer {
  // config: what VisionTransformer in model.py is built with, and eps of its norms; weights: its state_dict.
  // Throws an Error for an option that is not known here.
  constructor(config, weights) {
    checkOptions(config);
    Object.assign(this, config);
    this.weights = weights;
    this.class_token = weights["class_token"];
    this.encoder = new Encoder(weights, config);
  }

  // (c, h, w) -> (n_h * n_w, c * patch_size * patch_size)
  _to_patches(image) {
    const {patch_size: p, image_size: size, in_channels: c} = this;
    const n_w = size / p;
    const patches = new Float32Array(image.length);
    for (let i = 0; i < image.length; i++) {
      const channel = Math.floor(i / (size * size));
      const y = Math.floor(i / size) % size;
      const x = i % size;
      const patch = Math.floor(y / p) * n_w + Math.floor(x / p);
      patches[((patch * c + channel) * p + y % p) * p + x % p] = image[i];
    }
    return patches;
  }

  // (c, h, w) -> (n_h * n_w, hidden_dim)
  _process_input(image) {
    const size = this.in_channels * this.patch_size ** 2;
    return linear(this._to_patches(image), this.weights["conv_proj.weight"], this.weights["conv_proj.bias"], size);
  }

  // The class token, then the patches: (c, h, w) -> (seq_length, hidden_dim)
  _to_tokens(image) {
    const patches = this._process_input(image);
    const tokens = new Float32Array(this.hidden_dim + patches.length);
    tokens.set(this.class_token);
    tokens.set(patches, this.hidden_dim);
    return tokens;
  }

  // What the last linear layer of the class head is given: (tokens, hidden_dim) -> (hidden_dim), the class token
  // or the mean over the patches, or (representation_size)
  _features(x) {
    const dim = this.hidden_dim;
    const weights = this.weights;
    if (this.pool === "token") {
      x = this.encoder.ln.forward(x.subarray(0, dim));
    } else {
      x = meanOfRows(this.encoder.ln.forward(x).subarray(dim), dim);
    }
    if (this.representation_size) {
      x = linear(x, weights["heads.pre_logits.weight"], weights["heads.pre_logits.bias"], dim).map(Math.tanh);
    }
    return x;
  }

  // (tokens, hidden_dim) -> (num_classes)
  _classify(x) {
    const given = this._features(x);
    return linear(given, this.weights["heads.head.weight"], this.weights["heads.head.bias"], given.length);
  }

  // image: (c, h, w), normalised. changes:
  //   removed: the tokens left out (1 + row * n_w + column)
  //   off: the names of layers ("0") and heads ("0.1") switched off
  //   record: false computes no more than the logits need
  // Returns
  //   logits
  //   tokens: which are left
  //   attention[layer][head]: (tokens, tokens); null for a layer that is off
  //   after[layer]: the logits if the class head stood behind that layer
  //   inputs[layer]: what each layer is given, (tokens, hidden_dim); last: what the last one gives
  forward(image, {removed = new Set(), off = new Set(), record = true} = {}) {
    const dim = this.hidden_dim;
    // (seq_length, hidden_dim) + (seq_length, hidden_dim), then without the patches that are left out
    const embedded = add(this._to_tokens(image), this.encoder.pos_embedding);
    const tokens = [...Array(embedded.length / dim).keys()].filter(token => !removed.has(token));
    let x = new Float32Array(tokens.length * dim);
    tokens.forEach((token, i) => x.set(embedded.subarray(token * dim, (token + 1) * dim), i * dim));

    const attention = [];
    const after = [];
    const inputs = [];
    this.encoder.layers.forEach((block, layer) => {
      const isLast = layer === this.num_layers - 1;
      const needsAll = record || !isLast || this.pool !== "token";
      let weights = null;
      inputs.push(x);
      if (!off.has(`${layer}`)) {
        [x, weights] = block.forward(x, needsAll ? tokens.length : 1, head => off.has(`${layer}.${head}`));
      }
      attention.push(weights);
      if (record) after.push(this._classify(x));
    });
    return {logits: this._classify(x), tokens, attention, after, inputs, last: x};
  }
}
