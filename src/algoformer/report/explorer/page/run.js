// A page in which a model runs: requests to the worker, its answers, and the views of what is inside.
"use strict";
(function (algoformer) {
  const {byId, html, show, Player} = algoformer;
  const FORMAT = 1;

  // A subclass has `job()`, the prompt to run, and `draw(at)`, which shows the answers with this index.
  class Runner extends Player {
    constructor(pack, {pace, subject, tokenName}) {
      super({trained: pack.trained, depth: pack.depth, pace});
      this.pack = pack;
      this.answers = []; this.paths = []; this.busy = false; this.pending = false; this.looking = false;
      this.client = new algoformer.Client(pack, (message) => this.receive(message));
      this.inside = new algoformer.Inside({
        diagram: byId("diagram"), layer: byId("layer"), maps: byId("maps"), mapsTitle: byId("maps-title"),
        path: byId("path"), pathTitle: byId("path-title"),
      }, {program: pack.program, tokenName, subject, logarithmic: Boolean(pack.textbook)});
      matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.inside.draw());
      byId("depth").addEventListener("change", () => { this.depth = Number(byId("depth").value); this.limit(); this.request(); });
      const depths = [...new Set([1, 2, 5, 10, 50].map((factor) => factor * this.trained).concat(this.depth))].sort((a, b) => a - b);
      byId("depth").replaceChildren(...depths.map((depth) => html("option", {value: depth}, `${depth}`)));
      byId("depth").value = this.depth;
    }

    has(iteration) {
      return iteration <= this.answers.length || !this.running;
    }

    // Run the prompt as it is now; while a run has not answered yet, the next one waits.
    request() {
      if (this.busy) { this.pending = true; return; }
      this.busy = true; this.running = true; this.fresh = true;
      this.current = this.start();
    }

    start() {
      return this.client.run({...this.job(), steps: this.steps()});
    }

    // The number of iterations to run; a program without a loop runs once.
    steps() {
      return this.pack.looping ? this.depth : 1;
    }

    receive(message) {
      if (message.kind === "failed") return fail(message.message);
      if (message.kind !== "steps" || message.id !== this.current) return;
      if (this.fresh) { this.answers = []; this.paths = []; this.fresh = false; }
      for (const numbers of message.answers) this.answers.push(numbers);
      this.paths.push(...message.paths);
      this.running = !message.done;
      this.busy = false;
      this.seconds = message.seconds;
      byId("progress").value = this.answers.length / this.steps();
      byId("status").textContent = message.done ? `${this.answers.length} iterations in ${show(message.seconds)} s` : `iteration ${this.answers.length} …`;
      this.update();
      if (this.pending) { this.pending = false; this.request(); }
      if (message.done) document.documentElement.dataset.state = "ready";
    }

    update() {
      if (!this.answers.length) return;
      const at = Math.min(this.iteration, this.answers.length) - 1;
      this.draw(at);
      this.inside.follow(this.paths, this.iteration);
      if (!this.running) this.lookSoon(at + 1);
    }

    // Say what the answers are; that is the conclusion of a page that came without one.
    conclude(text) {
      byId("now").textContent = text;
      if (!this.pack.lead && !this.running) byId("conclusion").textContent = text;
    }

    // Attention maps are asked for one at a time, always those of the newest iteration.
    lookSoon(step) {
      this.wanted = step;
      if (this.looking) return;
      this.looking = true;
      const run = this.current;
      this.client.look(step).then((message) => {
        this.looking = false;
        if (message.kind === "maps") this.inside.look(message);
        if (this.wanted !== step || run !== this.current) this.lookSoon(this.wanted);
      });
    }
  }

  function fail(message) {
    byId("conclusion").textContent = message;
    document.documentElement.dataset.state = "failed";
  }

  // Open the page with a view of its model; whatever goes wrong is said in the place of the conclusion.
  algoformer.open = (View) => {
    try {
      const pack = JSON.parse(byId("model").textContent);
      if (pack.format !== FORMAT) {
        throw new Error("this page was put together from two versions of algoformer; make it again with algoformer explore");
      }
      self.explorer = new View(pack);
      explorer.predict = (rows, reads, steps, questions) => algoformer.predict(pack, rows, reads, steps, questions);
      explorer.limit();
      explorer.request();
    } catch (error) {
      fail(String(error.message ?? error));
    }
  };

  algoformer.Runner = Runner;
})((self.algoformer = self.algoformer || {}));
