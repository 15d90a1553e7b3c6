// Models of text: embedding, program and read-out, and the next token with a cache of keys and values.
"use strict";
(function (algoformer) {
  const {linear, top, Session} = algoformer;

  class TextModel {
    constructor(pack) {
      const weights = new algoformer.Weights(pack), {sizes} = pack, embedding = weights.take("trunk.embedding.weight");
      Object.assign(this, {Real: weights.Real, width: sizes.width, sizes, end: sizes.end, embedding: embedding.values});
      this.norm = weights.has("trunk.norm.weight") ? weights.norm("layer", "trunk.norm", 1e-5) : null;
      this.readOut = weights.has("head.weight") ? weights.linear("head")
        : weights.has("output.weight") ? weights.linear("output")
        : {weight: embedding.values, bias: null, inputs: sizes.width, outputs: sizes.vocabulary};
      this.body = algoformer.compileProgram(pack.program, weights, "trunk.body", "", sizes.width);
    }

    // Start on all tokens of a text at once; the first `prefix` of them see each other in both directions.
    begin({ids, prefix}, reads) {
      const layout = {...this.layout(ids.length, prefix), before: 0, rows: ids.length, main: ids.length, batch: 1};
      return new Session(this, this.enter(ids), layout, Int32Array.from(reads));
    }

    layout(tokens, prefix) {
      if (tokens > this.sizes.context) throw new Error(`this model reads at most ${this.sizes.context} tokens, got ${tokens}`);
      const own = new Uint8Array(tokens), reach = Int32Array.from(own, (_, token) => Math.max(token + 1, token < prefix ? prefix : 0));
      const full = {own, reach: new Int32Array(tokens).fill(tokens)};
      return {tokens, places: Int32Array.from(own, (_, token) => token), causal: {own, reach}, full};
    }

    enter(ids) {
      const {width, embedding} = this, data = new this.Real(ids.length * width);
      ids.forEach((id, token) => data.set(embedding.subarray(id * width, (id + 1) * width), token * width));
      return {data, batch: 1, tokens: ids.length};
    }

    read({data, batch, tokens}) {
      const {Real, width, readOut, norm} = this, rows = batch * tokens;
      const states = norm ? norm(data, rows, width, new Real(data.length)) : data;
      return linear(states, rows, readOut, new Real(rows * readOut.outputs));
    }
  }

  // The products of queries, keys and values of all tokens that were read, for each layer and iteration.
  class Cache {
    constructor(length, Real) {
      Object.assign(this, {length, Real, past: 0, slots: new Map()});
    }

    extend(layer, turn, products, stride) {
      if (!this.slots.has(layer)) this.slots.set(layer, new Map());
      const turns = this.slots.get(layer);
      if (!turns.has(turn)) turns.set(turn, {rows: new this.Real(this.length * stride), stride});
      const {rows} = turns.get(turn);
      rows.set(products, this.past * stride);
      return rows;
    }

    // Iterations that the newest token did not run get the keys and values of its last one.
    carry(last, steps) {
      const start = `*.${last}`;
      for (const turns of this.slots.values()) {
        for (const [turn, {rows, stride}] of turns) {
          if (turn !== start && !turn.startsWith(`${start}.`)) continue;
          const own = rows.subarray(this.past * stride, (this.past + 1) * stride);
          for (let step = last + 1; step <= steps; step++) {
            turns.get(`*.${step}${turn.slice(start.length)}`)?.rows.set(own, this.past * stride);
          }
        }
      }
    }
  }

  const largest = (before, now) => now.reduce((most, value, k) => Math.max(most, Math.abs(value - before[k])), 0);

  function logSoftmax(scores) {
    const {best, chance} = top(scores), shift = scores[best] - Math.log(chance);
    return scores.map((score) => score - shift);
  }

  // Stopping rules by name, as the command line writes them: what is compared, and whether it has not changed.
  const RULES = {
    same: (times) => ({times, summary: (scores) => top(scores).best, unchanged: (before, now) => before === now}),
    shift: (threshold) => ({
      summary: (scores) => logSoftmax(scores).map(Math.exp), unchanged: (before, now) => largest(before, now) < threshold,
    }),
    kl: (threshold) => ({
      summary: logSoftmax,
      unchanged: (before, now) => Math.max(0, now.reduce((sum, value, k) => sum + Math.exp(value) * (value - before[k]), 0)) < threshold,
    }),
    state: (tolerance) => ({
      state: true, summary: (state) => state,
      unchanged: (before, now) => Math.hypot(...now.map((value, k) => value - before[k])) <= tolerance * Math.hypot(...now),
    }),
  };

  function ruleOf(text) {
    if (!text) return null;
    const [name, number] = text.split(":");
    if (!RULES[name]) throw new Error(`this page does not know the stopping rule ${text}; it knows ${Object.keys(RULES).join(", ")}`);
    return {times: 1, ...RULES[name](Number(number))};
  }

  // Reads a growing text, each token once.
  class Decoder {
    constructor(model, length, steps) {
      Object.assign(this, {model, steps, layout: null, cache: new Cache(length, model.Real)});
    }

    // Read tokens; gives the most probable next token and its probability after every iteration that was run.
    read(ids, {prefix, rule: text, withScores}) {
      const {model, cache, steps} = this, rule = ruleOf(text), found = {best: [], chances: [], scores: []};
      const context = this.context(ids.length, prefix), run = model.body.begin(model.enter(ids), context);
      const asked = Int32Array.of(ids.length - 1), stateOf = () => Array.from(run.visible().data);
      let before = rule?.state ? stateOf() : null, streak = 0;
      for (let iteration = 1; iteration <= steps; iteration++) {
        const scores = Float64Array.from(model.read(run.step({...context, iteration, turn: "*"}, asked)));
        const {best, chance} = top(scores);
        found.best.push(best);
        found.chances.push(chance);
        if (withScores) found.scores.push(Array.from(scores));
        if (!rule || iteration === steps) continue;
        const now = rule.summary(rule.state ? stateOf() : scores);
        streak = before !== null && rule.unchanged(before, now) ? streak + 1 : 0;
        before = now;
        if (streak < rule.times) continue;
        cache.carry(iteration, steps);
        break;
      }
      cache.past += ids.length;
      return found;
    }

    context(count, prefix) {
      const {cache, model} = this, layout = model.layout(cache.past + count, prefix);
      return {
        Real: model.Real, width: model.width, places: layout.places.subarray(cache.past), recorder: null, turn: "", cache,
        all: layout.places.slice(0, count), mask: (causal) => (causal ? layout.causal : layout.full),
      };
    }
  }

  Object.assign(algoformer, {TextModel, Decoder});
})((self.algoformer = self.algoformer || {}));
