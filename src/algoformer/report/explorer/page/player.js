// The iteration that a page shows: its slider and its play button.
"use strict";
(function (algoformer) {
  const {byId} = algoformer;

  class Player {
    // `pace` is the time between two iterations in milliseconds.
    constructor({trained, depth, pace}) {
      Object.assign(this, {trained, depth, pace, iteration: 1, timer: null});
      byId("play").addEventListener("click", () => this.play());
      byId("iteration").addEventListener("input", () => this.setIteration(Number(byId("iteration").value)));
    }

    // Called when there is another number of iterations to show.
    limit() {
      byId("iteration").max = this.depth;
      this.setIteration(Math.min(this.iteration === 1 ? this.trained : this.iteration, this.depth));
    }

    setIteration(iteration) {
      this.iteration = iteration;
      byId("iteration").value = iteration;
      byId("iteration").setAttribute("aria-valuetext", `iteration ${iteration} of ${this.depth}`);
      const beyond = iteration > this.trained ? `, ${algoformer.show(iteration / this.trained)} × the trained depth` : "";
      byId("iteration-value").textContent = `${iteration} of ${this.depth}${beyond}`;
      this.update();
    }

    // Whether the answers after this iteration are there.
    has() {
      return true;
    }

    play() {
      if (this.timer) {
        clearInterval(this.timer);
        this.timer = null;
      } else {
        if (this.iteration >= Math.min(this.trained, this.depth)) this.setIteration(1);
        this.timer = setInterval(() => {
          if (this.iteration >= this.depth) return this.play();
          // the further it is, the larger the steps: playing takes about as long at any depth
          const next = Math.min(this.depth, this.iteration + Math.max(1, Math.floor(this.iteration / 15)));
          if (this.has(next)) this.setIteration(next);
        }, this.pace);
      }
      byId("play").textContent = this.timer ? "Pause" : "Play";
      byId("play").setAttribute("aria-pressed", String(Boolean(this.timer)));
    }
  }

  algoformer.Player = Player;
})((self.algoformer = self.algoformer || {}));
