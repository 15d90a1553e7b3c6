// One transformer layer, built from the words of a program and the weights of a PyTorch model.
"use strict";
(function (algoformer) {
  const {linear, attend, NORMS, ACTIVATIONS, POSITIONS} = algoformer;

  // Where a layer keeps its norms, relative to its own prefix.
  const NAMES = {
    attention: {in: "attention_norm", out: "attention_out_norm", after: "attention_after_norm"},
    feedforward: {in: "feedforward_norm", out: "feedforward_out_norm", after: "feedforward_after_norm"},
  };

  const word = (value, yes) => (value === true ? yes : value === false || value == null ? "none" : value);

  // One transformer layer.
  function compileLayer(part, weights, prefix, width) {
    const kind = word(part.norm ?? true, "layer"), eps = part.norm_eps ?? 1e-5, at = (part.norm_at ?? "in").split("+");
    const norm = (side, where) => at.includes(where) ? weights.norm(kind, `${prefix}.${NAMES[side][where]}`, eps) : null;
    const norms = {};
    for (const side of ["attention", "feedforward"]) {
      norms[side] = {in: norm(side, "in"), out: norm(side, "out"), after: norm(side, "after")};
    }
    const heads = part.heads, size = part.head_width ?? width / heads;
    const attention = {
      heads, size, kvHeads: part.kv_heads ?? heads, scale: part.scaled === false ? 1 : 1 / Math.sqrt(size),
      qkv: weights.linear(`${prefix}.attention.qkv`),
      output: weights.linear(`${prefix}.attention.output`),
      gate: part.output_gate ? weights.linear(`${prefix}.attention.gate`) : null,
      qkNorm: compileQkNorm(part, weights, `${prefix}.attention`, eps),
      rotate: POSITIONS[word(part.positions ?? true, "learned")].rotate ?? null,
      base: part.rope_base ?? 10000,
    };
    const feedforward = {
      up: weights.linear(`${prefix}.feedforward.up`), down: weights.linear(`${prefix}.feedforward.down`),
      activation: ACTIVATIONS[part.activation ?? "gelu"], gated: part.gated === true,
    };
    return {norms, attention, feedforward, causal: part.causal !== false};
  }

  // RMS norms of queries and keys: of each head, of all heads together, or of each head without weights.
  function compileQkNorm(part, weights, prefix, eps) {
    const scope = part.qk_norm ?? "none";
    if (scope === "none") return null;
    const kind = scope === "plain" ? "plain" : "rms", inner = scope === "full" ? ".norm" : "";
    const own = (name) => weights.norm(kind, `${prefix}.${name}${inner}`, eps);
    return {scope, query: own("query_norm"), key: own("key_norm")};
  }

  function runLayer(layer, stream, context, rows, keep) {
    const {Real, width} = context, {batch, tokens} = stream, {norms, attention, feedforward} = layer;
    const count = batch * tokens, mask = context.mask(layer.causal);
    const queries = rows ?? context.all, left = batch * queries.length;
    const normed = norms.attention.in ? norms.attention.in(stream.data, count, width, new Real(count * width)) : stream.data;
    const {qkv, output} = attention;
    const products = linear(normed, count, qkv, new Real(count * qkv.outputs));
    prepareHeads(products, count, tokens, attention, context);
    // with a cache the tokens of the stream come after `past` tokens that were read before
    const past = context.cache?.past ?? 0, all = {batch, tokens: past + tokens};
    const seen = context.cache?.extend(layer, context.turn, products, qkv.outputs) ?? products;
    const asked = past ? queries.map((query) => query + past) : queries;
    let read = attend(seen, all, attention, mask, asked, new Real(left * output.inputs), keep);
    if (attention.gate) multiplyGate(read, gather(normed, stream, queries, width, Real), left, attention.gate, Real);
    let base = rows ? gather(stream.data, stream, queries, width, Real) : stream.data;
    base = residual(base, linear(read, left, output, new Real(left * width)), left, width, norms.attention, Real);
    const inner = norms.feedforward.in ? norms.feedforward.in(base, left, width, new Real(left * width)) : base;
    const data = residual(base, runFeedforward(inner, left, feedforward, Real), left, width, norms.feedforward, Real);
    return {data, batch, tokens: queries.length};
  }

  function prepareHeads(products, count, tokens, attention, context) {
    const {heads, kvHeads, size, qkNorm, rotate, base} = attention, stride = (heads + 2 * kvHeads) * size;
    if (qkNorm) {
      normalizeHeads(products, count, stride, 0, heads, size, qkNorm.query, qkNorm.scope);
      normalizeHeads(products, count, stride, heads * size, kvHeads, size, qkNorm.key, qkNorm.scope);
    }
    if (rotate) {
      const place = (row) => context.places[row % tokens];
      rotate(products, count, stride, 0, heads + kvHeads, size, place, base);
    }
  }

  function normalizeHeads(data, count, stride, offset, heads, size, norm, scope) {
    const length = scope === "full" ? heads * size : size;
    for (let row = 0; row < count; row++) {
      for (let start = row * stride + offset, end = start + heads * size; start < end; start += length) {
        const piece = data.subarray(start, start + length);
        norm(piece, 1, length, piece);
      }
    }
  }

  function multiplyGate(read, normed, rows, gate, Real) {
    const gates = linear(normed, rows, gate, new Real(rows * gate.outputs));
    for (let k = 0; k < read.length; k++) read[k] /= 1 + Math.exp(-gates[k]);
  }

  function runFeedforward(x, rows, {up, down, activation, gated}, Real) {
    const inner = linear(x, rows, up, new Real(rows * up.outputs));
    if (!gated) {
      for (let k = 0; k < inner.length; k++) inner[k] = activation(inner[k]);
      return linear(inner, rows, down, new Real(rows * down.outputs));
    }
    // the first half of the rows of `up` is the gate, the second half is what it multiplies
    const hidden = up.outputs / 2, product = new Real(rows * hidden);
    for (let row = 0; row < rows; row++) {
      for (let k = 0; k < hidden; k++) {
        const from = row * up.outputs + k;
        product[row * hidden + k] = activation(inner[from]) * inner[from + hidden];
      }
    }
    return linear(product, rows, down, new Real(rows * down.outputs));
  }

  function residual(base, added, rows, width, norms, Real) {
    if (norms.out) added = norms.out(added, rows, width, new Real(rows * width));
    const sum = new Real(rows * width);
    for (let k = 0; k < sum.length; k++) sum[k] = base[k] + added[k];
    return norms.after ? norms.after(sum, rows, width, new Real(rows * width)) : sum;
  }

  function gather(data, {batch, tokens}, rows, width, Real) {
    const out = new Real(batch * rows.length * width);
    for (let sequence = 0, place = 0; sequence < batch; sequence++) {
      for (const row of rows) {
        const start = (sequence * tokens + row) * width;
        out.set(data.subarray(start, start + width), place);
        place += width;
      }
    }
    return out;
  }

  const gathered = (stream, rows, {width, Real}) =>
    rows ? {data: gather(stream.data, stream, rows, width, Real), batch: stream.batch, tokens: rows.length} : stream;

  Object.assign(algoformer, {word, gathered, compileLayer, runLayer});
})((self.algoformer = self.algoformer || {}));
