// Runs a program of algoformer: layers, loops and parallel branches, with the weights of a PyTorch model.
"use strict";
(function (algoformer) {
  const {linear, addSinusoid, NORMS, POSITIONS, word, gathered, compileLayer, runLayer} = algoformer;

  class Weights {
    constructor(pack) {
      this.Real = pack.dtype === "float64" ? Float64Array : Float32Array;
      this.tensors = pack.tensors;
      this.values = algoformer.decode(pack.data, pack.stored, this.Real);
    }
    has(name) {
      return Object.hasOwn(this.tensors, name);
    }
    take(name) {
      if (!this.has(name)) throw new Error(`this page has no weights named ${name}; make it again with algoformer explore`);
      const [start, shape] = this.tensors[name];
      return {shape, values: this.values.subarray(start, start + shape.reduce((a, b) => a * b, 1))};
    }
    vector(name) {
      return this.take(name).values;
    }
    linear(name) {
      const {shape, values} = this.take(`${name}.weight`);
      const bias = this.has(`${name}.bias`) ? this.vector(`${name}.bias`) : null;
      return {weight: values, bias, inputs: shape[1], outputs: shape[0]};
    }
    norm(kind, name, eps) {
      const norm = NORMS[kind];
      if (!norm) return null;
      const own = {eps};
      for (const parameter of norm.parameters) own[parameter] = this.vector(`${name}.${parameter}`);
      return (x, count, width, out) => norm.apply(x, count, width, own, out);
    }
  }

  // A node runs one part: `apply(stream, context, rows)` runs it once, at all tokens or at `rows` only.
  function compileLayers(part, weights, prefix, path, width) {
    const kind = word(part.positions ?? true, "learned"), position = POSITIONS[kind];
    const own = position.parameters.includes("table") ? {table: weights.vector(`${prefix}.positions.table`)} : {};
    const layers = Array.from({length: part.count}, (_, index) => compileLayer(part, weights, `${prefix}.layers.${index}`, width));
    const norm = part.final_norm === false ? null
      : weights.norm(word(part.norm ?? true, "layer") === "none" ? "layer" : word(part.norm ?? true, "layer"), `${prefix}.final_norm`, part.norm_eps ?? 1e-5);
    return {
      causal: part.count === 0 || part.causal !== false, looping: false,
      apply(stream, context, rows) {
        if (position.enter) stream = position.enter(stream, width, context.places, own);
        layers.forEach((layer, index) => {
          const last = index + 1 === layers.length;
          stream = runLayer(layer, stream, context, last ? rows : null, context.recorder?.attention(path, index));
          context.recorder?.state(path, index, stream);
        });
        if (!layers.length) stream = gathered(stream, rows, context);
        if (norm) {
          const count = stream.batch * stream.tokens;
          stream = {...stream, data: norm(stream.data, count, width, new context.Real(count * width))};
        }
        context.recorder?.state(path, "end", stream);
        return stream;
      },
    };
  }

  // Every injection by name: whether the state starts at zero, and how an iteration mixes state and input.
  const INJECTIONS = {
    add: {zeros: true, build: () => (state, entry, k) => state[k] + entry[k]},
    none: {zeros: false, build: null},
    gate: {
      zeros: true,
      build: (weights, prefix, width) => {
        const keep = weights.vector(`${prefix}.keep_gate`), input = weights.vector(`${prefix}.input_gate`);
        return (state, entry, k) => state[k] / (1 + Math.exp(-keep[k % width])) + input[k % width] * entry[k];
      },
    },
    decay: {
      zeros: true,
      build: (weights, prefix, width) => {
        const rate = weights.vector(`${prefix}.log_rate`), raw = weights.vector(`${prefix}.log_delta`);
        const step = Array.from(raw, (x) => Math.log1p(Math.exp(-Math.abs(x))) + Math.max(x, 0));
        const keep = step.map((size, k) => Math.exp(-size * Math.exp(rate[k])));
        return (state, entry, k, mapped) => keep[k % width] * state[k] + step[k % width] * mapped[k];
      },
      map: (weights, prefix) => weights.linear(`${prefix}.input_map`),
    },
    concat: {zeros: true, joined: true, build: (weights, prefix) => weights.linear(`${prefix}.adapter`)},
  };

  // A token with adaptive computation time halts when its weights sum up to this.
  const FULL = 1 - 0.01;

  // Adaptive computation time: a state also has, for each token, the weighted sum of its streams and the sum of
  // weights. An exit gate changes nothing that the loop computes, so that it needs nothing here.
  function compileHalting(part, weights, prefix, width) {
    if (part.halt !== "act") return {begin: (stream) => stream, update: (before, stream) => stream, visible: (state) => state};
    const {Real} = weights, gate = weights.linear(`${prefix}.halting.gate`);
    const added = (total, stream, weightOf) => total.map((value, k) => value + weightOf(Math.floor(k / width)) * stream.data[k]);
    return {
      begin: (stream) => ({...stream, total: new Real(stream.data.length), used: new Real(stream.batch * stream.tokens)}),
      update({total, used}, stream) {
        const logits = linear(stream.data, used.length, gate, new Real(used.length));
        const shares = used.map((sum, row) => {
          const chance = 1 / (1 + Math.exp(-logits[row]));
          return sum >= FULL ? 0 : sum + chance >= FULL ? 1 - sum : chance;
        });
        return {...stream, total: added(total, stream, (row) => shares[row]), used: used.map((sum, row) => sum + shares[row])};
      },
      // a token that still runs is read as if this iteration were its last
      visible: ({total, used, ...stream}) => ({...stream, data: added(total, stream, (row) => (used[row] < FULL ? 1 - used[row] : 0))}),
    };
  }

  // `turn` tells the iterations of all loops around a layer, so that a cache can keep them apart.
  const turned = (context, number) => ({...context, turn: `${context.turn}.${number}`});

  // Run a loop as often as it says; `visible` is what the parts after it see of its state.
  function runLoop(loop, stream, context, rows) {
    let state = loop.start(stream);
    for (let step = 1; step <= loop.steps; step++) state = loop.iterate(state, stream, context, step);
    return gathered(loop.visible?.(state) ?? state, rows, context);
  }

  function compileLoop(part, weights, prefix, path, width) {
    const body = compileProgram(part.body, weights, `${prefix}.body`, `${path}.body`, width);
    const kind = part.inject ?? "add", injection = INJECTIONS[kind], {Real} = weights;
    const mix = injection.build?.(weights, `${prefix}.injection`, width), map = injection.map?.(weights, `${prefix}.injection`);
    const startWord = part.start ?? "auto", halting = compileHalting(part, weights, prefix, width);
    const first = (entry) => {
      const zeros = startWord === "zeros" || startWord === "noise" || (startWord === "auto" && injection.zeros);
      if (startWord === "vector") return spread(weights.vector(`${prefix}.start.vector`), entry, width, Real);
      return zeros ? {...entry, data: new Real(entry.data.length)} : entry;
    };
    const node = {
      causal: body.causal, looping: true, steps: part.steps, visible: halting.visible,
      start: (entry) => halting.begin(first(entry)),
      // `number` counts iterations from 1
      iterate(whole, entry, outer, number) {
        const context = turned(outer, number);
        let state = whole;
        if (part.step_signal === "sinusoid") state = addSinusoid(state, width, new Int32Array(state.tokens).fill(number));
        let next = body.apply(mixed(state, entry, injection, mix, map, width, Real), context, null);
        const share = part.damp ?? 1, before = state.data;
        if (share !== 1) next = {...next, data: next.data.map((value, k) => before[k] + share * (value - before[k]))};
        context.recorder?.state(path, "end", next);
        return halting.update(whole, next);
      },
      apply: (stream, context, rows) => runLoop(node, stream, context, rows),
    };
    return node;
  }

  // A slow state, which is read out, and the fast state of the low network, the first part of the body. Without
  // parts after it, the last of the low network's steps updates the slow state.
  function compileTwoStates(part, weights, prefix, path, width) {
    const {Real} = weights, inner = compileNodes(part.body, weights, `${prefix}.body`, `${path}.body`, width);
    const low = inner[0], rest = inner.slice(1), shared = !rest.length;
    const start = (part.start ?? "auto") === "auto" ? (part.inject === "none" ? "input" : "vector") : part.start;
    const node = {
      causal: inner.every((each) => each.causal), looping: true, steps: part.steps,
      start(entry) {
        if (start === "input") return {...entry, fast: {...entry, data: new Real(entry.data.length)}};
        const fast = spread(weights.vector(`${prefix}.low_start.vector`), entry, width, Real);
        return {...spread(weights.vector(`${prefix}.start.vector`), entry, width, Real), fast};
      },
      iterate(state, entry, outer, number) {
        const context = turned(outer, number);
        let {fast, ...slow} = state;
        const seen = part.inject === "none" ? slow : sum(slow, entry), steps = low.steps - (shared ? 1 : 0);
        for (let step = 1; step <= steps; step++) fast = low.iterate(fast, seen, context, step);
        let next = shared ? low.iterate(slow, fast, context, low.steps) : sum(slow, fast);
        for (const each of rest) next = each.apply(next, context, null);
        context.recorder?.state(path, "end", next);
        return {...next, fast};
      },
      apply: (stream, context, rows) => runLoop(node, stream, context, rows),
    };
    return node;
  }

  function sum(first, ...others) {
    const data = first.data.slice();
    for (const other of others) for (let k = 0; k < data.length; k++) data[k] += other.data[k];
    return {...first, data};
  }

  function spread(vector, stream, width, Real) {
    const data = new Real(stream.data.length);
    for (let k = 0; k < data.length; k++) data[k] = vector[k % width];
    return {...stream, data};
  }

  function mixed(state, entry, injection, mix, map, width, Real) {
    if (!injection.build) return state;
    const rows = state.batch * state.tokens, data = new Real(rows * width);
    if (injection.joined) {
      const both = new Real(2 * rows * width);
      for (let row = 0; row < rows; row++) {
        both.set(state.data.subarray(row * width, (row + 1) * width), 2 * row * width);
        both.set(entry.data.subarray(row * width, (row + 1) * width), (2 * row + 1) * width);
      }
      return {...state, data: linear(both, rows, mix, data)};
    }
    const mapped = map ? linear(entry.data, rows, map, new Real(rows * width)) : null;
    for (let k = 0; k < data.length; k++) data[k] = mix(state.data, entry.data, k, mapped);
    return {...state, data};
  }

  function compileParallel(part, weights, prefix, path, width) {
    const branches = part.branches.map((branch, index) =>
      compileProgram(branch, weights, `${prefix}.branches.${index}`, `${path}.branch${index}`, width));
    const record = (stream, context) => (context.recorder?.state(path, "end", stream), stream);
    return {
      causal: branches.every((branch) => branch.causal), looping: branches.some((branch) => branch.looping),
      apply: (stream, context, rows) => record(sum(...branches.map((branch) => branch.apply(stream, context, rows))), context),
      begin(stream, context) {
        const runs = branches.map((branch) => branch.begin(stream, context));
        return {
          step: (now) => record(sum(...runs.map((run) => run.step(now, null))), now),
          save: () => runs.map((run) => run.save()),
          load: (saved) => runs.forEach((run, index) => run.load(saved[index])),
        };
      },
    };
  }

  const COMPILE = {layers: compileLayers, loop: compileLoop, twostates: compileTwoStates, parallel: compileParallel};

  function compileNodes(parts, weights, prefix, path, width) {
    return parts.map((part, index) =>
      COMPILE[part.part](part, weights, `${prefix}.parts.${index}`, path ? `${path}.${index}` : `${index}`, width));
  }

  // Parts in order. `begin` starts an unroll: each step runs the last looping part once and what follows it.
  function compileProgram(parts, weights, prefix, path, width) {
    const nodes = compileNodes(parts, weights, prefix, path, width);
    const traced = nodes.findLastIndex((node) => node.looping);
    const run = (stream, context, first, last, rows) => {
      for (let index = first; index < last; index++) stream = nodes[index].apply(stream, context, index + 1 === last ? rows : null);
      return first < last ? stream : gathered(stream, rows, context);
    };
    return {
      causal: nodes.every((node) => node.causal), looping: traced >= 0,
      apply: (stream, context, rows) => run(stream, context, 0, nodes.length, rows),
      begin(stream, context) {
        if (traced < 0) {
          let out = null;
          const once = (now, rows) => run(stream, now, 0, nodes.length, rows);
          return {step: (now, rows) => (now.recorder ? once(now, rows) : (out ??= once(now, rows))), save: () => null, load() {}};
        }
        const entry = run(stream, context, 0, traced, null), node = nodes[traced];
        let state = node.begin ? null : node.start(entry);
        const inner = node.begin?.(entry, context);
        return {
          step(now, rows) {
            if (now.recorder?.whole) run(stream, now, 0, traced, null);
            state = inner ? inner.step(now) : node.iterate(state, entry, now, now.iteration);
            return run(this.visible(), now, traced + 1, nodes.length, rows);
          },
          // the state of the loop as the parts after it see it
          visible: () => node.visible?.(state) ?? state,
          save: () => (inner ? inner.save() : state),
          load(saved) { if (inner) inner.load(saved); else state = saved; },
        };
      },
    };
  }

  Object.assign(algoformer, {Weights, compileProgram, INJECTIONS});
})((self.algoformer = self.algoformer || {}));
