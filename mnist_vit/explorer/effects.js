// The model once more for each thing left out: in a worker, so that the page never waits, or else in the page's
// thread.

// Does the jobs of a task, {id, image, jobs}, one after another; a new task ends the one before.
function runner(config, weights, post) {
  const model = new VisionTransformer(config, weights);
  let current = null;
  return async task => {
    current = task;
    for (let job = 0; job < task.jobs.length; job++) {
      await new Promise(resolve => setTimeout(resolve));
      if (current !== task) return;
      const {removed, off} = task.jobs[job];
      const changes = {removed: new Set(removed), off: new Set(off), record: false};
      const {logits} = model.forward(task.image, changes);
      post({id: task.id, job, logits});
    }
  };
}

// What the worker does: the first message brings the model, each later one a task.
const WORKER = `
onmessage = ({data: [config, weights]}) => {
  const run = runner(config, weights, postMessage);
  onmessage = event => run(event.data);
  postMessage({ready: true});
};`;

// A function to send tasks to. A page in a sandbox may get a worker that never answers: after a while it does
// without.
function startRunner(modelSource, config, weights, receive) {
  let send = null; // once it is known which way works
  let waiting = null; // the last task before
  const begin = way => {
    if (send) return;
    send = way;
    if (waiting) send(waiting);
  };
  const withoutWorker = () => {
    if (!send) begin(runner(config, weights, receive));
  };
  try {
    const source = new Blob([modelSource, `${runner}\n`, WORKER], {type: "text/javascript"});
    const worker = new Worker(URL.createObjectURL(source));
    worker.onmessage = ({data}) => {
      if (data.ready) begin(task => worker.postMessage(task));
      else receive(data);
    };
    worker.onerror = withoutWorker;
    worker.postMessage([config, weights]);
    setTimeout(withoutWorker, 3000);
  } catch {
    withoutWorker();
  }
  return task => {
    if (send) send(task);
    else waiting = task;
  };
}
