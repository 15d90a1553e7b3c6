// Answers that were computed in advance, iteration by iteration.
"use strict";
(function (algoformer) {
  const {html, Cells, Player} = algoformer;
  const byId = (id) => document.getElementById(id);

  class AnswersView extends Player {
    constructor({trained, inputs}) {
      super({trained, depth: trained, pace: 500});
      this.inputs = inputs;
      this.cells = new Cells(() => {});
      byId("input").replaceChildren(...inputs.map(({title}, k) => html("option", {value: k}, title)));
      byId("input").addEventListener("change", () => this.open(Number(byId("input").value)));
      this.open(0);
    }

    open(index) {
      this.input = this.inputs[index];
      const {answers, targets} = this.input;
      const wrong = targets.length ? (at, place) => answers[at][place] !== targets[place] : null;
      this.cells.open({...this.input, trained: this.trained, wrong});
      this.depth = answers.length;
      this.limit();
    }

    update() {
      this.cells.show(this.iteration);
      const {answers, exits, targets} = this.input, done = exits.filter((exit) => exit <= this.iteration).length;
      const right = targets.filter((target, place) => target === answers[this.iteration - 1][place]).length;
      const times = this.iteration === 1 ? "1 iteration" : `${this.iteration} iterations`;
      byId("now").textContent = `After ${times} ${done} of ${exits.length} answers have settled.` +
        (targets.length ? ` ${right} of ${targets.length} are right.` : "");
    }
  }

  algoformer.start = () => {
    self.explorer = new AnswersView(JSON.parse(byId("model").textContent));
    document.documentElement.dataset.state = "ready";
  };
})((self.algoformer = self.algoformer || {}));
