// Prompts that the page can draw, edit and turn into rows: pairs (x, y) with a question, or stored rows.
"use strict";
(function (algoformer) {
  // The first seed: its prompt in one dimension has examples on both sides, well spread.
  const FIRST = 24;

  // Regression pairs: y = <w, features(x)> + noise, with everything decided by the seed.
  class PairPrompt {
    constructor(pack) {
      const {dim, context, exact_context: exact} = pack.sizes;
      Object.assign(this, {dim, exact, coordinate: 0, noise: pack.noise, seed: 0});
      this.most = Math.floor((context - 1) / 2);
      this.count = this.most;
      this.features = algoformer.featuresOf(pack.representation);
      this.draw(FIRST);
    }

    draw(seed) {
      this.seed = seed;
      const normal = algoformer.normals(seed), vector = () => Array.from({length: this.dim}, normal);
      this.weights = vector();
      this.question = vector().map((value) => Math.max(-2.5, Math.min(2.5, value)));
      this.samples = Array.from({length: this.most}, () => ({x: vector(), error: normal()}));
      this.points = [];
      this.range = 1;
      this.resize(this.count);
    }

    // The picture grows with the labels and never shrinks under the reader's hand.
    makeRoom() {
      const largest = Math.max(...this.points.map(({y}) => Math.abs(y)), 1);
      if (1.05 * largest > this.range) this.range = Math.ceil(1.2 * largest);
    }

    resize(count) {
      this.count = count;
      this.points.length = Math.min(this.points.length, count);
      while (this.points.length < count) {
        const {x, error} = this.samples[this.points.length];
        const y = algoformer.dot(this.features(x), this.weights) + this.noise * error;
        this.points.push({x: x.slice(), y, error});
      }
      this.makeRoom();
    }

    disturb(noise) {
      for (const point of this.points) point.y += (noise - this.noise) * point.error;
      this.noise = noise;
      this.makeRoom();
    }

    rows() {
      const blank = () => new Array(this.dim).fill(0), label = (y) => [y, ...new Array(this.dim - 1).fill(0)];
      const shown = this.points.flatMap(({x, y}) => [x.slice(), label(y)]);
      // weights that count on their number of examples get empty pairs in front, which change no method
      const missing = this.exact ? 2 * (this.most - this.points.length) : 0;
      return [...Array.from({length: missing}, blank), ...shown, this.question.slice()];
    }

    // Further questions: the question with its chosen coordinate at each of these values.
    questions(values) {
      return values.map((value) => this.question.map((own, k) => (k === this.coordinate ? value : own)));
    }

    moments() {
      return algoformer.moments(this.points.map(({x}) => this.features(x)), this.points.map(({y}) => y));
    }

    tokenName(token, {before, rows}) {
      const row = token - before, empty = this.exact ? 2 * (this.most - this.points.length) : 0;
      if (row < 0 || row >= rows) return "empty token";
      if (row === rows - 1) return "question";
      if (row < empty) return "empty example";
      return `${(row - empty) % 2 ? "y" : "x"}${Math.floor((row - empty) / 2) + 1}`;
    }
  }

  // Rows that came with the page, of a task that the page cannot draw itself; one number can be edited.
  class StoredPrompt {
    constructor(pack) {
      this.stored = pack.prompts;
      this.draw(FIRST);
    }

    draw(seed) {
      const {rows, reads, targets, parts} = this.stored[(seed - 1) % this.stored.length];
      Object.assign(this, {seed, reads, targets, parts, own: rows.map((row) => row.slice())});
    }

    rows() {
      return this.own;
    }

    tokenName(token, {before, rows}) {
      const row = token - before;
      if (row < 0 || row >= rows) return "empty token";
      return row === this.reads.at(-1) ? "question" : `row ${row + 1}`;
    }
  }

  Object.assign(algoformer, {PairPrompt, StoredPrompt});
})((self.algoformer = self.algoformer || {}));
