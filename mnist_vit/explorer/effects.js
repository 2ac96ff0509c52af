// The model once more for each thing left out: in a worker, so that the page never waits, or else in the page's thread.

// Does the jobs of a task, {id, image, jobs}, one after another; a new task ends the one before.
function runner(config, weights, post) {
  const model = new VisionTransformer(config, weights);
  let current = null;
  return async task => {
    current = task;
    for (let job = 0; job < task.jobs.length; job++) {
      await new Promise(resolve => setTimeout(resolve));
      if (current !== task) return;
      const {removed, off} = task.jobs[job], changes = {removed: new Set(removed), off: new Set(off), record: false};
      post({id: task.id, job, logits: model.forward(task.image, changes).logits});
    }
  };
}

// A function to send tasks to. A page in a sandbox may get a worker that never answers: after a while it does without.
function startRunner(modelSource, config, weights, receive) {
  let send = null, last = null;
  const begin = way => [send = way, last && send(last)];
  const alone = () => send || begin(runner(config, weights, receive));
  try {
    const start = "onmessage = ({data: [config, weights]}) => { const run = runner(config, weights, postMessage);"
      + "onmessage = event => run(event.data); postMessage({ready: true}); };";
    const source = new Blob([modelSource, `${runner}\n`, start], {type: "text/javascript"});
    const worker = new Worker(URL.createObjectURL(source));
    worker.onmessage = ({data}) => data.ready ? send || begin(task => worker.postMessage(task)) : receive(data);
    worker.onerror = alone;
    worker.postMessage([config, weights]);
    setTimeout(alone, 3000);
  } catch {
    alone();
  }
  return task => send ? send(task) : last = task;
}
