// A model of text: the class of a typed line with the votes of its tokens, or the text that the model writes.
"use strict";
(function (algoformer) {
  const {byId, show, top, Cells, Runner, settledAt} = algoformer;
  const times = (count) => (count === 1 ? "1 iteration" : `${count} iterations`);

  // What both kinds share: the line that is typed, and its tokens.
  class TextView extends Runner {
    constructor(pack) {
      super(pack, {pace: 500, subject: "The chosen token", tokenName: (token) => this.tokenizer.show(this.ids[token])});
      Object.assign(this, {tokenizer: new algoformer.Tokenizer(pack.tokenizer), number: 0, ids: []});
      this.cells = new Cells(() => this.inspect());
      byId("line").value = pack.lines[0];
      byId("line").addEventListener("input", () => this.request());
      byId("new").addEventListener("click", () => {
        this.number = (this.number + 1) % pack.lines.length;
        byId("line").value = pack.lines[this.number];
        this.request();
      });
    }

    request() {
      const typed = this.tokenizer.encode(algoformer.spell(byId("line").value, this.pack.spelling));
      const {longest} = this.pack;
      byId("problem").textContent = typed.length > longest ? `This line has ${typed.length} tokens, and the model takes at most ${longest}; shorten it.`
        : typed.length || this.pack.empty !== null ? "" : "Type a line with at least one word.";
      if (byId("problem").textContent) return;
      this.typed = typed.length ? typed : [this.pack.empty];
      super.request();
    }

    // Show answers, an iteration in a row, at the places with these names.
    showCells(at, input) {
      if (String(this.shown) !== String(input.names)) this.cells.open(input);
      Object.assign(this.cells.input, input);
      this.shown = input.names;
      this.cells.show(at + 1);
    }
  }

  // A classifier: the scores of a text are the mean of those of its tokens, so each token has a vote.
  class Votes extends TextView {
    job() {
      this.ids = this.typed;
      return {rows: {ids: this.ids, prefix: 0}, reads: this.ids.map((_, token) => token), follow: Math.max(0, Math.min(this.cells.place, this.ids.length) - 1)};
    }

    inspect() {
      super.request();
    }

    draw(at) {
      const {labels} = this.pack, count = labels.length;
      const found = this.answers.map((votes) => {
        const tokens = votes.length / count, mean = Array.from({length: count}, (_, label) => {
          let sum = 0;
          for (let token = 0; token < tokens; token++) sum += votes[token * count + label];
          return sum / tokens;
        });
        return [top(mean), ...Array.from({length: tokens}, (_, token) => top(votes.subarray(token * count, (token + 1) * count)))];
      });
      const answers = found.map((row) => row.map(({best}) => labels[best])), names = ["the text", ...this.ids.map((id) => this.tokenizer.show(id))];
      if (answers[0].length !== names.length) return; // another line is on its way
      const exits = names.map((_, place) => settledAt(answers, place)), done = exits.filter((exit) => exit <= at + 1).length;
      this.showCells(at, {names, answers, probabilities: found.map((row) => row.map(({chance}) => chance)), exits, trained: this.trained});
      this.conclude(`After ${times(at + 1)}: ${answers[at][0]}, probability ${found[at][0].chance.toFixed(2)}. ${done} of ${exits.length} answers have settled.`);
    }
  }

  // A language model or a translator, which writes token by token.
  class Written extends TextView {
    constructor(pack) {
      super(pack);
      this.written = [];
      byId("rule").addEventListener("change", () => this.request());
    }

    // What is given to the model, and how many tokens may follow.
    given() {
      const {sizes, mark, new_tokens: most} = this.pack, ids = mark === null ? this.typed : [...this.typed, mark];
      return {ids, prefix: sizes.prefix_lm ? ids.length : 0, most: Math.min(mark === null ? most : 2 * ids.length + 8, sizes.context - ids.length + 1)};
    }

    start() {
      this.source = this.given();
      byId("read").textContent = `The model reads ${this.source.ids.map((id) => this.tokenizer.show(id)).join(" · ")}`;
      return this.client.write({...this.source, steps: this.steps(), rule: byId("rule").value});
    }

    receive(message) {
      if (message.kind !== "written") {
        super.receive(message);
        if (message.done) this.tell();
      }
      if (message.kind !== "written" || message.id !== this.current) return;
      if (this.fresh) this.written = [];
      this.written.push(...message.tokens);
      this.spent = message.seconds;
      this.fresh = this.busy = false;
      byId("progress").value = message.done ? 1 : this.written.length / this.source.most;
      this.tell();
      this.draw(Math.min(this.iteration, this.depth) - 1);
      if (this.pending) { this.pending = false; this.request(); } else if (message.done) this.inspect();
    }

    tell() {
      byId("status").textContent = `${this.written.length} tokens in ${show(this.spent)} s`;
    }

    // Look inside with all tokens at once: each state is that of the token after which the chosen one was written.
    inspect() {
      const {ids, prefix} = this.source, token = ids.length - 1 + Math.min(this.cells.place, this.written.length - 1);
      this.ids = [...ids, ...this.written.slice(0, -1).map(({best}) => best.at(-1))];
      this.busy = this.running = this.fresh = true;
      this.current = this.client.run({rows: {ids: this.ids, prefix}, reads: [token], follow: token, steps: this.steps()});
    }

    draw(at) {
      const {written} = this, steps = Math.max(...written.map(({best}) => best.length)), early = byId("rule").value;
      const rows = (values) => Array.from({length: steps}, (_, t) => written.map((token) => values(token)[Math.min(t, values(token).length - 1)]));
      const tokens = rows(({best}) => best), answers = tokens.map((row) => row.map((id) => this.tokenizer.show(id)));
      const exits = written.map(({best}, place) => (early ? best.length : settledAt(answers, place))), done = exits.filter((exit) => exit <= at + 1).length;
      const row = Math.min(at, steps - 1), names = written.map((_, place) => `Token ${place + 1}`);
      this.showCells(row, {names, answers, probabilities: rows(({chances}) => chances), exits, trained: this.trained, bare: true, ran: written.map(({best}) => best.length)});
      const mean = early ? ` Mean: ${show(exits.reduce((sum, exit) => sum + exit, 0) / exits.length)} of ${this.steps()} iterations.` : "";
      const text = this.tokenizer.decode(tokens[row]).trim();
      this.conclude(`After ${times(at + 1)}: ${text} (${done} of ${exits.length} tokens have ${early ? "left the loop" : "settled"}.${mean})`);
    }
  }

  algoformer.start = () => algoformer.open(JSON.parse(byId("model").textContent).labels ? Votes : Written);
})((self.algoformer = self.algoformer || {}));
