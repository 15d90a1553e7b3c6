// Serves requests for a model, in a Web Worker or, where there is none, in the page itself.
"use strict";
(function (algoformer) {
  const CHUNK_MS = 30, KEPT_NUMBERS = 1.5e7;

  // A pause in which newer requests can arrive; timers of a worker would wait 4 ms.
  const pause = () => new Promise((resolve) => {
    const channel = new MessageChannel();
    channel.port1.onmessage = () => { channel.port1.close(); resolve(); };
    channel.port2.postMessage(0);
  });

  algoformer.serve = function (answer) {
    let model = null, session = null, kept = [], stride = 1, latest = 0, focus = 0;

    function remember() {
      const numbers = session.layout.batch * session.layout.tokens * model.width;
      if (session.iteration % stride === 0) kept.push(session.save());
      while (kept.length > 8 && kept.length * numbers > KEPT_NUMBERS) {
        stride *= 2;
        kept = kept.filter(({iteration}) => iteration % stride === 0);
      }
    }

    async function run({id, rows, reads, questions, steps, follow}) {
      const began = performance.now();
      session = model.begin(rows, reads, questions);
      focus = session.layout.before + (follow ?? rows.length - 1);
      kept = []; stride = 1;
      remember();
      let chunk = [], paths = [], last = performance.now();
      while (session.iteration < steps) {
        const recorder = follow === null ? null : new algoformer.PathRecorder(model.width, focus, session.asked);
        chunk.push(session.step(recorder));
        if (recorder) paths.push(recorder.paths);
        remember();
        const done = session.iteration === steps;
        if (done || performance.now() - last > CHUNK_MS) {
          const first = session.iteration - chunk.length + 1;
          answer({kind: "steps", id, first, answers: chunk, paths, done, seconds: (performance.now() - began) / 1000});
          chunk = []; paths = [];
          await pause();
          if (id !== latest) return;
          last = performance.now();
        }
      }
    }

    // Continue a text with the most probable tokens, one after the other.
    async function write({id, ids, prefix, most, steps, rule, withScores}) {
      const began = performance.now(), decoder = new algoformer.Decoder(model, ids.length + most - 1, steps);
      let chunk = [], next = ids, last = began;
      for (let count = 1; count <= most; count++) {
        // what is given is always read with all iterations
        const found = decoder.read(next, {prefix, rule: count > 1 ? rule : null, withScores});
        const token = found.best.at(-1), done = token === model.end || count === most;
        chunk.push(found);
        next = [token];
        if (done || performance.now() - last > CHUNK_MS) {
          answer({kind: "written", id, tokens: chunk, done, seconds: (performance.now() - began) / 1000});
          chunk = [];
          if (done) return;
          await pause();
          if (id !== latest) return;
          last = performance.now();
        }
      }
    }

    // Every attention map of iteration `step`, from the nearest state that was kept.
    function look({id, step}) {
      const back = session.save();
      session.load(kept.findLast(({iteration}) => iteration < step));
      while (session.iteration + 1 < step) session.step();
      const {layout} = session, {before, rows} = layout;
      const recorder = new algoformer.MapRecorder(layout.main);
      session.step(recorder);
      session.load(back);
      answer({kind: "maps", id, step, tokens: layout.main, before, rows, focus, maps: recorder.maps});
    }

    const actions = {
      build({pack}) { model = new algoformer[pack.text ? "TextModel" : "Model"](pack); answer({kind: "ready"}); },
      run(request) { latest = request.id; return run(request); },
      write(request) { latest = request.id; return write(request); },
      look,
    };
    return async (request) => {
      try {
        await actions[request.kind](request);
      } catch (error) {
        answer({kind: "failed", id: request.id, message: String(error.message ?? error)});
      }
    };
  };

  if (typeof WorkerGlobalScope !== "undefined" && self instanceof WorkerGlobalScope) {
    const handle = algoformer.serve((message) => self.postMessage(message));
    self.onmessage = (event) => handle(event.data);
  }
})((self.algoformer = self.algoformer || {}));
