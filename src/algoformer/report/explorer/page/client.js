// Talks to the worker that runs the model; without workers the model runs in the page.
"use strict";
(function (algoformer) {
  class Client {
    constructor(pack, onMessage) {
      this.id = 0;
      this.waiting = new Map();
      const receive = (message) => {
        const resolve = this.waiting.get(message.id);
        if (resolve && (message.kind === "failed" || message.kind === "maps")) {
          this.waiting.delete(message.id);
          resolve(message);
        } else {
          onMessage(message);
        }
      };
      try {
        const source = document.getElementById("engine").textContent;
        this.worker = new Worker(URL.createObjectURL(new Blob([source], {type: "text/javascript"})));
        this.worker.onmessage = (event) => receive(event.data);
        this.worker.onerror = (event) => receive({kind: "failed", message: event.message || "the worker could not start"});
        this.send = (request) => this.worker.postMessage(request);
      } catch {
        const handle = algoformer.serve(receive);
        this.send = (request) => setTimeout(() => handle(request));
      }
      this.send({kind: "build", pack});
    }

    // Start a run, which follows the state of row `follow`; an older one that is not finished is dropped.
    run(request) {
      this.send({kind: "run", id: ++this.id, questions: [], follow: null, ...request});
      return this.id;
    }

    // Start to write the continuation of a text.
    write(request) {
      this.send({kind: "write", id: ++this.id, ...request});
      return this.id;
    }

    // The attention maps of one iteration of the last run.
    look(step) {
      const id = `look${++this.id}`;
      this.send({kind: "look", id, step});
      return new Promise((resolve) => this.waiting.set(id, resolve));
    }

    close() {
      this.worker?.terminate();
    }
  }

  // All that a worker of its own answers to the request that `start` sends.
  const collect = (pack, start) => new Promise((resolve, reject) => {
    const found = [];
    const client = new Client(pack, (message) => {
      found.push(...(message.answers?.map((numbers) => Array.from(numbers)) ?? message.tokens ?? []));
      if (message.kind === "failed") { client.close(); reject(new Error(message.message)); }
      if (message.done) { client.close(); resolve({found, seconds: message.seconds}); }
    });
    start(client);
  });

  // Answers of the model to a prompt after iterations 1..steps, each a list of numbers.
  algoformer.predict = (pack, rows, reads, steps, questions = []) =>
    collect(pack, (client) => client.run({rows, reads, steps, questions})).then(({found, seconds}) => ({answers: found, seconds}));

  // The continuation {ids, prefix, most, steps, rule, withScores} of a text, token by token.
  algoformer.write = (pack, request) => collect(pack, (client) => client.write(request)).then(({found}) => found);
  algoformer.Client = Client;
})((self.algoformer = self.algoformer || {}));
