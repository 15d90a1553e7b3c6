// A model on prompts: rows to tokens, a program, tokens to answers, one iteration at a time.
"use strict";
(function (algoformer) {
  const {linear} = algoformer;

  function halfTable() {
    const table = new Float32Array(65536);
    for (let bits = 0; bits < 65536; bits++) {
      const sign = bits & 0x8000 ? -1 : 1, exponent = (bits >> 10) & 31, fraction = bits & 1023;
      table[bits] = sign * (exponent === 0 ? fraction * 2 ** -24
        : exponent === 31 ? (fraction ? NaN : Infinity) : (1 + fraction / 1024) * 2 ** (exponent - 15));
    }
    return table;
  }

  // Base64 text of little-endian numbers, as an array of the precision in which the page computes.
  function decode(text, stored, Real) {
    const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    if (stored === "float16") {
      const table = halfTable();
      return Real.from(new Uint16Array(bytes.buffer), (bits) => table[bits]);
    }
    const values = stored === "float64" ? new Float64Array(bytes.buffer) : new Float32Array(bytes.buffer);
    return values instanceof Real ? values : Real.from(values);
  }
  algoformer.decode = decode;

  class Model {
    constructor(pack) {
      const weights = new algoformer.Weights(pack), {sizes} = pack;
      Object.assign(this, {Real: weights.Real, width: sizes.width, sizes, answersInRows: pack.answers_in_rows ?? true});
      this.maps = Array.from({length: sizes.row_maps}, (_, kind) => weights.linear(`read_in.maps.${kind}`));
      this.readOut = weights.linear("read_out");
      this.body = algoformer.compileProgram(pack.program, weights, "body", "", sizes.width);
    }

    // Start on a prompt. `questions` are further last rows, answered as if each stood in the last one's place.
    begin(rows, reads, questions = []) {
      this.checkRows(rows, reads, questions);
      const shared = this.body.causal, layout = this.layout(rows.length, questions.length, shared);
      const stream = this.enter(rows, questions, layout);
      const [before] = this.sizes.blanks;
      const asked = reads.map((row) => row + before);
      if (shared) for (let extra = 0; extra < questions.length; extra++) asked.push(layout.main + extra);
      return new Session(this, stream, layout, Int32Array.from(asked));
    }

    // The answers that are read from a stream.
    read({data, batch, tokens}) {
      return linear(data, batch * tokens, this.readOut, new this.Real(batch * tokens * this.readOut.outputs));
    }

    checkRows(rows, reads, questions) {
      const {dim, context, exact_context: exact} = this.sizes;
      if (rows.length > context || (exact && rows.length !== context)) {
        throw new Error(`this model reads ${exact ? "exactly" : "at most"} ${context} rows, got ${rows.length}`);
      }
      for (const row of [...rows, ...questions]) {
        if (row.length !== dim) throw new Error(`this model reads rows of ${dim} numbers, got ${row.length}`);
      }
      if (!this.body.causal && this.answersInRows && reads.some((row) => row + 1 < rows.length)) {
        throw new Error("full attention would see rows that come after a question; ask at the last row only");
      }
    }

    // Where each token stands, and how many leading tokens it sees.
    layout(rows, questions, shared) {
      const [before, after] = this.sizes.blanks, main = before + rows + after, last = before + rows - 1;
      const tokens = shared ? main + questions : main, batch = shared ? 1 : 1 + questions;
      const places = Int32Array.from({length: tokens}, (_, token) => (token < main ? token : last));
      const own = Uint8Array.from({length: tokens}, (_, token) => (token < main ? 0 : 1));
      const causal = {own, reach: Int32Array.from({length: tokens}, (_, token) => (token < main ? token + 1 : last))};
      const full = {own: new Uint8Array(tokens), reach: new Int32Array(tokens).fill(tokens)};
      return {before, rows, main, tokens, batch, shared, places, causal, full};
    }

    enter(rows, questions, layout) {
      const {Real, width, maps} = this, {dim} = this.sizes, {before, tokens, batch, main, shared} = layout;
      const data = new Real(batch * tokens * width);
      const put = (row, number, token) => {
        const target = data.subarray(token * width, (token + 1) * width);
        linear(Real.from(row), 1, {...maps[number % maps.length], inputs: dim}, target);
      };
      for (let sequence = 0; sequence < batch; sequence++) {
        rows.forEach((row, number) => {
          const replaced = sequence && number + 1 === rows.length ? questions[sequence - 1] : row;
          put(replaced, number, sequence * tokens + before + number);
        });
      }
      if (shared) questions.forEach((row, extra) => put(row, rows.length - 1, main + extra));
      return {data, batch, tokens};
    }
  }

  // A prompt on its way through the loop; every `step` is one iteration and gives the answers after it.
  class Session {
    constructor(model, stream, layout, asked) {
      Object.assign(this, {model, layout, asked, iteration: 0});
      this.context = {
        Real: model.Real, width: model.width, places: layout.places, recorder: null, turn: "",
        all: Int32Array.from({length: layout.tokens}, (_, token) => token),
        mask: (causal) => (causal ? layout.causal : layout.full),
      };
      this.run = model.body.begin(stream, this.context);
    }

    step(recorder = null) {
      this.iteration++;
      const context = {...this.context, recorder, iteration: this.iteration}, {model, asked} = this, whole = recorder?.whole;
      const stream = this.run.step(context, whole ? null : asked);
      return whole ? null : Float64Array.from(model.read(stream));
    }

    save() {
      return {iteration: this.iteration, state: this.run.save()};
    }

    load({iteration, state}) {
      this.iteration = iteration;
      this.run.load(state);
    }
  }

  // Keeps one token's state after every part and layer; cheap enough to be on at every iteration.
  class PathRecorder {
    constructor(width, token, asked) {
      Object.assign(this, {width, token, place: Math.max(0, asked.indexOf(token)), asked: asked.length, paths: new Map(), whole: false});
    }
    attention() {
      return null;
    }
    state(path, index, stream) {
      // at the end only the rows that are read are left; a token that is not read is then the first of them
      const start = (stream.tokens === this.asked ? this.place : this.token) * this.width;
      this.paths.set(`${path}/${index}`, Float32Array.from(stream.data.subarray(start, start + this.width)));
    }
  }

  // Keeps every attention map of one iteration, for the tokens of the prompt itself.
  class MapRecorder {
    constructor(tokens) {
      Object.assign(this, {tokens, maps: new Map(), whole: true});
    }
    attention(path, index) {
      const {tokens} = this, heads = [];
      this.maps.set(`${path}/${index}`, heads);
      return (head, query, weights, reach) => {
        if (query >= tokens) return;
        heads[head] ??= new Float32Array(tokens * tokens);
        heads[head].set(weights.subarray(0, Math.min(reach, tokens)), query * tokens);
      };
    }
    state() {}
  }

  Object.assign(algoformer, {Model, Session, PathRecorder, MapRecorder});
})((self.algoformer = self.algoformer || {}));
