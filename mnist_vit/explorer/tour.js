// A tour through one picture, from pixels to probabilities, in the page's own model. Each step says what happens,
// asks for an action, and tells, when that is done, what the model makes of it: every number is computed here.
// The gallery has two pages, which name each other in page.beside: the tour begins in the smallest model's, and goes on
// with the same picture in the larger one's. A page without another has the tour in its own model.

const SEVEN = 7;
const best = () => ranking(now.logits)[0];
const sure = i => percent(probabilities(now.logits)[i]);
const headSize = () => model.hidden_dim / model.num_heads;
const inkIn = token => sumOf(pixelsIn8(token));
const answerNow = () => `The answer is now ${page.classes[best()]}, ${sure(best())}.`;

// The logits of what is shown, which the page may not have rendered yet
const logitsShown = () => model.forward(prepare(shown), {...state, record: false}).logits;

function before() {
  const logits = logitsOf(state.pixels);
  const [first] = ranking(logits);
  return `With everything on it is ${page.classes[first]}, ${percent(probabilities(logits)[first])}.`;
}

// The pixels of a patch, 0 to 255
function pixelsIn8(token) {
  const inPatch = (_, i) => tokenAt([i % width, Math.floor(i / width) % height]) === token;
  return shown.filter(inPatch);
}

// title; term: the glossary's, that defines it; part: what is lit, in the drawing of the model and below
// text: what happens; task: what to do; isDone(what, detail): whether something that happened is it, after "render" (the
// model has run) or "pin", "token", "map", "weight", "logit" (what was opened); found: what is then told; miss: what is
// told of something else that happened, if anything is; begin: what is made ready; isOfSeven: it needs a picture that the model takes for a 7
const STEPS = [
  {
    title: "Pixels",
    part: "picture",
    text: () => `To the model a picture is ${COUNT} numbers: how bright each pixel is.`,
    task: "Draw a 7.",
    begin: () => $("blank").click(),
    isDone: what => what === "render" && !isBlank() && best() === SEVEN,
    found: () => `The answer is ${page.classes[best()]}, ${sure(best())}. How is it made?`,
  },
  {
    title: "Patches",
    term: "patch",
    part: "picture",
    text: () => `The picture is cut into ${rows} × ${columns} patches of ${height / rows} × ${width / columns} pixels.`,
    task: "Click a patch with ink.",
    begin: () => choose("look"),
    isDone: (what, token) => what === "pin" && token >= prefix && inkIn(token) > 0,
    miss: (what, token) => what === "pin" && token >= prefix ? "This patch is blank: one with ink is asked for." : "",
    found: () => `This one, in ${spot(pinned - prefix)}, has ${pixelsIn8(pinned).filter(Boolean).length} pixels with ink.`,
  },
  {
    title: "Projection",
    term: "linear layer",
    part: "tokens",
    text: () => `A linear layer makes ${model.hidden_dim} numbers of the pixels of each patch: its projection.`,
    task: `Press "${patches} patches and a class token" in the row of the model's blocks, look at the pixels and at the`
      + " numbers \"projected\", and close the window.",
    isDone: (what, {at}) => what === "token" && at >= prefix,
    found: ({before: [first]}) => `The first of the ${model.hidden_dim} numbers is ${three(first)}.`,
  },
  {
    title: "Position",
    term: "position embedding",
    part: "picture",
    text: () => "All blank patches have the same pixels, so the same projection. The position embedding of the place is"
      + " added to each: the sum is the token of the patch.",
    task: "Click a blank patch.",
    begin: () => choose("look"),
    isDone: (what, token) => what === "pin" && token >= prefix && inkIn(token) === 0,
    miss: (what, token) => what === "pin" && token >= prefix ? "This patch has ink: a blank one is asked for." : "",
    found: () => `Of this patch the model knows no more than that it is blank and in ${spot(pinned - prefix)}.`,
  },
  {
    title: "Class token",
    term: "class token",
    part: "pooled",
    text: () => `One more token belongs to no patch. It gathers what the answer needs: ${prefix + patches} tokens in all.`,
    task: "Press \"class token\", below the picture.",
    isDone: (what, token) => what === "pin" && token === 0,
    found: () => "It is the query again: each map shows how much of each patch it takes in.",
  },
  {
    title: "Query and key",
    term: "query",
    part: "layer 0",
    text: () => `In each head every token makes a query and a key, ${headSize()} numbers each. They`
      + " decide how much one token takes from another.",
    task: "Click the map of layer 0, head 0, look at its numbers, and close the window.",
    isDone: (what, map) => what === "map" && map === heads[0][0],
    found: () => `Its numbers are the ${prefix + patches} weights of the class token.`,
  },
  {
    title: "Score",
    term: "score",
    part: "layer 0",
    text: () => `The score of a query and a key is the sum of their products, divided by √${headSize()}: ${headSize()} is how`
      + " many numbers each of the two has.",
    task: "Click a map, then one of its numbers; follow the products, their sum and the score, and close both windows.",
    isDone: what => what === "weight",
    found: ({score}) => `Its score is ${three(score)}.`,
  },
  {
    title: "Softmax",
    term: "softmax",
    part: "layer 0",
    text: () => "Softmax turns the scores of a query into weights: positive, and together 1.",
    task: "Click the brightest square of a map, then its number, the largest weight, and close both windows.",
    isDone: (what, {weight, scores, score}) => what === "weight" && weight > 0 && Math.max(...scores) === score,
    miss: (what, {scores}) => {
      if (what !== "weight") return "";
      const largest = now.tokens[scores.indexOf(Math.max(...scores))];
      return `This weight is not the largest of its row: that is the one of the ${nameOf(largest)}.`;
    },
    found: ({weight}) => `It is ${weight.toFixed(4)}; all others together have ${(1 - weight).toFixed(4)}.`,
  },
  {
    title: "Weighted sum",
    term: "value",
    part: "layer 0",
    text: () => "Every token hands over a value, times its weight: their sum is the output of the head. A head that is"
      + " switched off adds nothing.",
    task: "Switch head 1 of layer 0 off: untick it, above its map.",
    isDone: what => what === "render" && state.off.has("0.1"),
    found: () => `${answerNow()} ${before()}`,
  },
  {
    title: "Heads merged",
    term: "output projection",
    part: "layer 0",
    text: () => "The outputs of all heads stand side by side, and the output projection mixes them.",
    task: "Tick head 1 of layer 0 again, and untick head 0 beside it.",
    isDone: what => what === "render" && state.off.has("0.0") && !state.off.has("0.1"),
    found: () => `${answerNow()} ${before()}`,
  },
  {
    title: "Residual connection and MLP",
    term: "residual connection",
    part: "layer 0",
    text: () => "What attention gives is added to the token that it was given, and so is what the MLP makes of each token by"
      + " itself. A layer that is off passes the tokens on as they are.",
    task: "Switch layer 0 off: untick it, left of its maps.",
    isDone: what => what === "render" && state.off.has("0"),
    found: () => `${answerNow()} ${before()}`,
  },
  {
    title: "The next layer",
    term: "encoder block",
    part: "layer 1",
    text: () => "Layer 1 does the same again, with tokens that layer 0 has changed.",
    task: "Tick layer 0 again, and its head 0: everything is on.",
    isDone: what => what === "render" && state.off.size === 0,
    found: () => `The answer, if the model ended ${now.after.map((logits, layer) => {
      const [first] = ranking(logits);
      return `behind layer ${layer}: ${page.classes[first]} (${percent(probabilities(logits)[first])})`;
    }).join("; ")}.`,
  },
  {
    title: "Class head",
    term: "class head",
    part: "answer",
    text: () => "After the last layer only the class token is read: the class head makes a logit for each class of it.",
    task: "Click the logit of the 7, the last number of its row, and close the window.",
    isDone: (what, {one}) => what === "logit" && one === SEVEN,
    found: ({logit}) => `It is ${three(logit)}.`,
  },
  {
    title: "Probabilities",
    term: "logit",
    part: "picture",
    isOfSeven: true,
    text: () => `Softmax makes probabilities of the logits; the 7 has ${percent(probabilities(logitsShown())[SEVEN])}.`
      + " What does that depend on?",
    task: "Erase the top stroke of the 7 in the picture, until the answer is another digit.",
    begin: () => choose("erase"),
    isDone: what => what === "render" && !isBlank() && best() !== SEVEN,
    found: () => `${answerNow()} ${goesOn ? whereItGoesOn() : ENDING}`,
  },
];

const ENDING = "That is the end of the tour. \"What the answer depends on\", below the maps, goes on: it leaves out each patch."
  + " \"Copy link\" keeps what you see: a drawing opens in the page of any model of digits, an example only where the page"
  + " has it.";

// --- the page beside this one: {file, name, tokens, patches, first, own}; first: whether the tour begins there; own: this page's model ---

const {beside} = page;
const goesOn = beside !== null && !beside.first;
// In a notebook's frame a page has no folder, so what lies beside its file is not beside it there.
const canOpenBeside = /^(file|https?):/.test(location.protocol);

function whereItGoesOn() {
  if (canOpenBeside) {
    return `That is the whole way through this model. Next comes ${beside.name}, with the 7 as it was before this step.`;
  }
  return `That is the end of the tour here. It goes on in ${beside.file}, beside the file of this page: open that in a browser.`;
}

// A link to the page beside this one. Whoever comes back by the browser's Back finds this page at its own address.
function linkTo(link, address, own) {
  link.href = address ? `${beside.file}#${address}` : beside.file;
  link.onclick = () => {
    try {
      history.replaceState(null, "", `#${own}`);
    } catch {
      // A browser that keeps the address of a file as it is: Back then shows the page as it opens.
    }
  };
}

// At the last step: the same picture in the larger model, as it is before a stroke is erased
async function offerToGoOn() {
  const isLast = step === STEPS.length - 1;
  $("tour-on").hidden = true;
  if (!isLast || !goesOn || !canOpenBeside) return;
  const [there, here] = await Promise.all([addressOfStep(2, "look"), addressOfStep(STEPS.length, "erase")]);
  linkTo($("tour-on"), there, here);
  if (step !== STEPS.length - 1) return; // it was left meanwhile
  $("tour-on").hidden = false;
  bringIntoView(STEPS[step].part); // the panel has grown
}

// Where the tour begins is asked only in a page that has a smaller one beside it.
async function askWhere() {
  const {name, tokens, own, file} = beside;
  const steps = `${STEPS.length} steps`;
  $("tour-where-text").textContent = canOpenBeside
    ? `In ${name}, the smallest model, all ${tokens} tokens are seen at once. After its ${steps} the same picture opens here, in`
      + ` ${own}, cut into ${patches} patches. Or take the ${steps} here alone.`
    : `The smallest model, with ${tokens} tokens, has a page of its own: ${file}, beside the file of this page. Open that in a`
      + ` browser, or take the ${steps} here.`;
  $("tour-smallest").textContent = `Begin in the smallest model, ${tokens} tokens`;
  $("tour-smallest").hidden = !canOpenBeside;
  $("tour-here").textContent = `Begin here, in ${own}`;
  if (canOpenBeside) linkTo($("tour-smallest"), "step=1", await addressOf(state));
  $("tour-where").hidden = false;
  $(canOpenBeside ? "tour-smallest" : "tour-here").focus();
}

function buildBeside() {
  if (!beside || !hasTour()) return;
  $("tour-here").onclick = () => beginTour(0);
  $("tour-not").onclick = () => {
    $("tour-where").hidden = true;
    $("tour-start").focus();
  };
  $("larger").hidden = !goesOn || !canOpenBeside;
  $("larger").textContent = `To ${beside.name}, ${beside.patches} patches`;
  $("larger").href = beside.file;
  $("tour-on").textContent = `The same picture in ${beside.name}, ${beside.patches} patches`;
}

let step = null; // of the tour; null outside it
let ownSeven = null; // the picture that the step that needs a 7 last began with

// The tour asks for two layers, two heads and the digit 7.
const exampleOfSeven = () => sorted.find(one => one.label === SEVEN && !isWrong(one));
const hasTour = () => live && page.digits && READ === 0 && page.layers > 1 && page.heads > 1 && exampleOfSeven();

const isSeven = () => ranking(logitsOf(state.pixels))[0] === SEVEN;

// The visitor's drawing stays. Replaced is only a blank picture, and, where a step needs a 7, one that the model takes
// for another digit: by the 7 that the step last began with, else by an example. Returns what is told of it.
function prepareDrawing({isOfSeven = false}) {
  if (isOfSeven && isSeven()) {
    const {example, name, label, pixels} = state;
    ownSeven = {example, name, label, pixels};
    return "";
  }
  const wasBlank = isBlank();
  if (!isOfSeven && !wasBlank) return "";
  if (ownSeven) {
    edit(now => Object.assign(now, ownSeven, {pixels: ownSeven.pixels.slice()}));
    return "";
  }
  show(exampleOfSeven().i);
  if (wasBlank) return "";
  return "This step needs a picture that the model takes for a 7: here is an example; Undo brings yours back. ";
}

// Without preparing, the state stays as it is, as in a link
function goTo(number, isPrepared = true) {
  step = number;
  $("tour-where").hidden = true;
  $("tour-on").hidden = true;
  $("tour").hidden = step === null;
  document.body.classList.toggle("touring", step !== null);
  if (step === null) return;
  const {title, term: name, part, text, task, begin} = STEPS[step];
  const told = isPrepared && step > 0 ? prepareDrawing(STEPS[step]) : "";
  if (isPrepared) begin?.();
  $("tour").dataset.part = part;
  light($("tour"));
  const where = beside ? ` in ${beside.own}` : "";
  $("tour-title").replaceChildren(`${step + 1} of ${STEPS.length}${where}: `, name ? term(name, title) : title);
  $("tour-text").textContent = told + text();
  $("tour-task").textContent = task;
  $("tour-found").textContent = "";
  $("tour-back").disabled = step === 0;
  $("tour-next").textContent = "Skip";
  offerToGoOn();
  bringIntoView(part);
}

// What a step asks for, below the panel of the tour: a part of the page, or the model's block where there is none
function bringIntoView(part) {
  const parts = [...document.querySelectorAll(`[data-part="${part}"]`)].filter(one => one !== $("tour"));
  const target = parts.find(one => !$("model-drawing").contains(one)) ?? parts[0];
  scrollBelowTour(target, "nearest");
}

function scrollBelowTour(target, block) {
  target.style.scrollMargin = `${$("tour").offsetHeight + 20}px 0 20px`;
  const isStill = matchMedia("(prefers-reduced-motion: reduce)").matches;
  target.scrollIntoView({block, behavior: isStill ? "instant" : "smooth"});
}

// Something happened: is it what the step asks for? While it is, what is told stays up to date. In the middle of a
// stroke nothing is told, since a longer text moves the picture away under the pen: it is told at the end of the stroke.
function happened(what, detail = {}) {
  if (step === null || (pen && inks())) return;
  const {isDone, miss} = STEPS[step];
  if (!isDone(what, detail)) {
    const isOpen = !$("tour-found").textContent.startsWith("✓");
    if (isOpen) $("tour-found").textContent = miss?.(what, detail) || $("tour-found").textContent;
    return;
  }
  const isFirst = !$("tour-found").textContent.startsWith("✓");
  $("tour-found").textContent = `✓ ${STEPS[step].found(detail)}`;
  if (isFirst && !pen) bringIntoView(STEPS[step].part); // the panel has grown
  $("tour-next").textContent = step + 1 < STEPS.length ? "Next" : "End";
}

function beginTour(number) {
  ownSeven = null;
  goTo(number);
}

function buildTour() {
  $("tour-start").hidden = !hasTour();
  $("tour-start").onclick = () => beside?.first ? askWhere() : beginTour(0);
  buildBeside();
  $("tour-back").onclick = () => goTo(step - 1);
  $("tour-again").onclick = () => goTo(step);
  $("tour-next").onclick = () => goTo(step + 1 < STEPS.length ? step + 1 : null);
  $("tour-leave").onclick = () => goTo(null);
}
