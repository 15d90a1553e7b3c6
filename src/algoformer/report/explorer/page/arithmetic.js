// Arithmetic of a transformer layer over typed arrays: products, norms, activations, positions, attention.
// A stream is {data, batch, tokens}: batch × tokens × width numbers in one row-major typed array.
"use strict";
(function (algoformer) {
  // Four rows of the left factor side by side, in double precision.
  let panel = new Float64Array(4096);

  // out = x · weightᵀ + bias, four rows by two columns at a time, summed in double precision.
  function linear(x, rows, layer, out) {
    const {weight, bias, inputs, outputs} = layer;
    if (panel.length < 4 * inputs) panel = new Float64Array(4 * inputs);
    let row = 0;
    for (; row + 3 < rows; row += 4) {
      const start = row * inputs;
      for (let k = 0, at = 0; k < inputs; k++) {
        for (let each = 0; each < 4; each++) panel[at++] = x[start + each * inputs + k];
      }
      for (let column = 0; column < outputs; column += 2) {
        const w0 = column * inputs, w1 = column + 1 < outputs ? w0 + inputs : w0;
        let a0 = 0, a1 = 0, a2 = 0, a3 = 0, b0 = 0, b1 = 0, b2 = 0, b3 = 0;
        for (let k = 0, at = 0; k < inputs; k++, at += 4) {
          const u = weight[w0 + k], v = weight[w1 + k];
          const p = panel[at], q = panel[at + 1], r = panel[at + 2], s = panel[at + 3];
          a0 += u * p; a1 += u * q; a2 += u * r; a3 += u * s;
          b0 += v * p; b1 += v * q; b2 += v * r; b3 += v * s;
        }
        const first = bias ? bias[column] : 0;
        let place = row * outputs + column;
        out[place] = a0 + first; out[place + outputs] = a1 + first;
        out[place + 2 * outputs] = a2 + first; out[place + 3 * outputs] = a3 + first;
        if (w1 !== w0) {
          const second = bias ? bias[column + 1] : 0;
          place++;
          out[place] = b0 + second; out[place + outputs] = b1 + second;
          out[place + 2 * outputs] = b2 + second; out[place + 3 * outputs] = b3 + second;
        }
      }
    }
    for (; row < rows; row++) {
      const start = row * inputs;
      for (let column = 0; column < outputs; column++) {
        const from = column * inputs;
        let sum = 0;
        for (let k = 0; k < inputs; k++) sum += weight[from + k] * x[start + k];
        out[row * outputs + column] = sum + (bias ? bias[column] : 0);
      }
    }
    return out;
  }

  // Every norm by name: the parameters it has, and what it does to `count` vectors of `width` numbers.
  const NORMS = {
    layer: {parameters: ["weight", "bias"], apply: layerNorm},
    rms: {parameters: ["weight"], apply: rmsNorm},
    plain: {parameters: [], apply: rmsNorm},
    none: null,
  };

  function layerNorm(x, count, width, norm, out) {
    const {weight, bias, eps} = norm;
    for (let row = 0; row < count; row++) {
      const start = row * width;
      let mean = 0;
      for (let k = 0; k < width; k++) mean += x[start + k];
      mean /= width;
      let variance = 0;
      for (let k = 0; k < width; k++) variance += (x[start + k] - mean) ** 2;
      const scale = 1 / Math.sqrt(variance / width + eps);
      for (let k = 0; k < width; k++) out[start + k] = (x[start + k] - mean) * scale * weight[k] + bias[k];
    }
    return out;
  }

  function rmsNorm(x, count, width, norm, out) {
    const {weight, eps} = norm;
    for (let row = 0; row < count; row++) {
      const start = row * width;
      let square = 0;
      for (let k = 0; k < width; k++) square += x[start + k] ** 2;
      const scale = 1 / Math.sqrt(square / width + eps);
      for (let k = 0; k < width; k++) out[start + k] = x[start + k] * scale * (weight ? weight[k] : 1);
    }
    return out;
  }

  const STEEPNESS = Math.sqrt(8 / Math.PI), CURVATURE = 0.044715 * STEEPNESS;
  const ACTIVATIONS = {
    gelu: (x) => x / (1 + Math.exp(-x * (STEEPNESS + CURVATURE * x * x))),
    gelu_exact: (x) => 0.5 * x * erfc(-x / Math.SQRT2),
    relu: (x) => (x > 0 ? x : x !== x ? x : 0),
    silu: (x) => x / (1 + Math.exp(-x)),
    relu2: (x) => (x > 0 ? x * x : x !== x ? x : 0),
  };

  // The complementary error function: its series near 0, its continued fraction further out.
  function erfc(x) {
    const size = Math.abs(x);
    if (size < 2.5) {
      let term = size, sum = size;
      for (let n = 1; Math.abs(term) > 1e-17 * sum; n++) {
        term *= (-size * size) / n;
        sum += term / (2 * n + 1);
        if (n > 200) break;
      }
      const erf = (2 / Math.sqrt(Math.PI)) * sum;
      return x < 0 ? 1 + erf : 1 - erf;
    }
    let fraction = 0;
    for (let n = 60; n > 0; n--) fraction = n / 2 / (size + fraction);
    const tail = Math.exp(-size * size) / Math.sqrt(Math.PI) / (size + fraction);
    return x < 0 ? 2 - tail : tail;
  }

  // Every kind of position by name: `enter` changes the stream on entry, `rotate` queries and keys.
  const POSITIONS = {
    learned: {parameters: ["table"], enter: addTable},
    sinusoid: {parameters: [], enter: addSinusoid},
    rope: {parameters: [], rotate},
    none: {parameters: []},
  };

  function addTable(stream, width, places, position) {
    const {data, batch, tokens} = stream, out = data.slice();
    for (let row = 0; row < batch * tokens; row++) {
      const from = places[row % tokens] * width;
      for (let k = 0; k < width; k++) out[row * width + k] += position.table[from + k];
    }
    return {data: out, batch, tokens};
  }

  // Sines of a place in the first half of the coordinates, cosines in the second.
  function sinusoid(place, k, width) {
    const half = Math.ceil(width / 2), pair = k < half ? k : k - half;
    const angle = place * Math.pow(10000, (-2 * pair) / width);
    return k < half ? Math.sin(angle) : Math.cos(angle);
  }

  function addSinusoid(stream, width, places) {
    const {data, batch, tokens} = stream, out = data.slice();
    for (let row = 0; row < batch * tokens; row++) {
      for (let k = 0; k < width; k++) out[row * width + k] += sinusoid(places[row % tokens], k, width);
    }
    return {data: out, batch, tokens};
  }

  // Rotate coordinate k with coordinate k + half of every head by the token's position.
  function rotate(data, rows, stride, offset, heads, size, placeOf, base) {
    const half = size >> 1;
    for (let row = 0; row < rows; row++) {
      for (let k = 0; k < half; k++) {
        const angle = placeOf(row) * Math.pow(base, (-2 * k) / size);
        const cosine = Math.cos(angle), sine = Math.sin(angle);
        for (let head = 0; head < heads; head++) {
          const first = row * stride + offset + head * size + k, second = first + half;
          const a = data[first], b = data[second];
          data[first] = a * cosine - b * sine;
          data[second] = b * cosine + a * sine;
        }
      }
    }
  }

  // Softmax attention. `reach[i]` leading keys are seen by query i, and by an extra query also its own token.
  function attend(qkv, stream, attention, mask, queries, out, kept) {
    const {heads, kvHeads, size, scale} = attention, {batch, tokens} = stream;
    const stride = (heads + 2 * kvHeads) * size, group = heads / kvHeads;
    const weights = new Float64Array(tokens);
    for (let sequence = 0; sequence < batch; sequence++) {
      for (let place = 0; place < queries.length; place++) {
        const query = queries[place], reach = mask.reach[query], own = mask.own[query];
        const seen = own ? reach + 1 : reach;
        for (let head = 0; head < heads; head++) {
          const keyHead = Math.floor(head / group);
          const from = (sequence * tokens + query) * stride + head * size;
          const keys = sequence * tokens * stride + (heads + keyHead) * size;
          const values = keys + kvHeads * size;
          let largest = -Infinity;
          for (let j = 0; j < seen; j++) {
            const key = keys + (j < reach ? j : query) * stride;
            let score = 0;
            for (let k = 0; k < size; k++) score += qkv[from + k] * qkv[key + k];
            score *= scale;
            weights[j] = score;
            if (score > largest) largest = score;
          }
          let total = 0;
          for (let j = 0; j < seen; j++) total += weights[j] = Math.exp(weights[j] - largest);
          const target = ((sequence * queries.length + place) * heads + head) * size;
          for (let j = 0; j < seen; j++) weights[j] /= total;
          sumValues(qkv, values, stride, reach, own ? query : -1, weights, size, out, target);
          if (kept && sequence === 0) kept(head, query, weights, reach);
        }
      }
    }
    return out;
  }

  let sums = new Float64Array(256);
  function sumValues(qkv, values, stride, reach, own, weights, size, out, target) {
    if (sums.length < size) sums = new Float64Array(size);
    sums.fill(0, 0, size);
    for (let j = 0; j < reach; j++) {
      const weight = weights[j], value = values + j * stride;
      for (let k = 0; k < size; k++) sums[k] += weight * qkv[value + k];
    }
    if (own >= 0) for (let k = 0; k < size; k++) sums[k] += weights[reach] * qkv[values + own * stride + k];
    for (let k = 0; k < size; k++) out[target + k] = sums[k];
  }

  // The largest of some scores, and its probability.
  function top(scores) {
    let best = -1, sum = 0;
    for (let k = 0; k < scores.length; k++) if (best < 0 || scores[k] > scores[best]) best = k;
    for (let k = 0; k < scores.length; k++) sum += Math.exp(scores[k] - scores[best]);
    return {best, chance: 1 / sum};
  }

  Object.assign(algoformer, {top, linear, attend, addSinusoid, NORMS, ACTIVATIONS, POSITIONS});
})((self.algoformer = self.algoformer || {}));
