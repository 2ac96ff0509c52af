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

// What is told of a drawing that the model takes for another digit
function whatIsNoSeven() {
  if (isBlank()) return "";
  return `The answer is ${page.classes[best()]}, ${sure(best())}; a 7 is asked for. Draw on, or begin anew: "Blank".`;
}

// The pixels of a patch, 0 to 255
function pixelsIn8(token) {
  const inPatch = (_, i) => tokenAt([i % width, Math.floor(i / width) % height]) === token;
  return shown.filter(inPatch);
}

const ENDING = "That is the end of the tour. \"What the answer depends on\", below the maps, goes on: it leaves out each patch."
  + " \"Link\" keeps what you see: a drawing opens in the page of any model of digits, an example only where the page"
  + " has it.";

// --- the page beside this one: {file, name, tokens, patches, first, own}; first: whether the tour begins there; own: this page's model ---

const {beside} = page;
const goesOn = beside !== null && !beside.first;
// In a notebook's frame a page has no folder, so what lies beside its file is not beside it there.
const canOpenBeside = /^(file|https?):/.test(location.protocol);

// title; term: the glossary's, that defines it; part: what is lit, in the drawing of the model and below
// text: what happens; task: what to do; isDone(what, detail): whether something that happened is it, after "render" (the
// model has run) or "pin", "token", "map", "weight", "logit" (what was opened), "block" (of the model's row); found: what is
// then told; room: for how many letters of it room is kept; miss: what is told of something else that happened, null to
// leave what is told; begin: what is made ready; isOfSeven: it needs a picture that the model takes for a 7;
// isOfPatches: their grid is drawn; at: the part where the task is done, if it is another than what is lit
const STEPS = [
  {
    title: "Pixels",
    part: "picture",
    text: () => `To the model a picture is ${COUNT} numbers: how bright each pixel is.`,
    task: "Draw a 7.",
    begin: () => $("blank").click(),
    isDone: what => what === "render" && !isBlank() && best() === SEVEN,
    miss: what => what === "render" ? whatIsNoSeven() : null,
    found: () => `The model's answer is 7, ${sure(SEVEN)}. If your 7 is not finished, draw on. How is that answer made?`,
    room: 100,
  },
  {
    title: "Patches",
    term: "patch",
    part: "picture",
    isOfPatches: true,
    text: () => `The picture is cut into ${rows} × ${columns} patches of ${height / rows} × ${width / columns} pixels.`
      + " Rows and columns count from 0.",
    task: "Click a patch with ink.",
    begin: () => choose("look"),
    isDone: (what, token) => what === "pin" && token >= prefix && inkIn(token) > 0,
    miss: (what, token) => what === "pin" && token >= prefix ? "This patch is blank: one with ink is asked for." : null,
    room: 60,
    found: () => `This one, in ${spot(pinned - prefix)}, has ${pixelsIn8(pinned).filter(Boolean).length} pixels with ink.`,
  },
  {
    title: "Projection",
    term: "linear layer",
    part: "tokens",
    isOfPatches: true,
    text: () => `A linear layer makes ${model.hidden_dim} numbers of the pixels of each patch: its projection.`,
    task: `Press "${patches} patches and a class token" in the row of the model's blocks, look at the pixels and at the`
      + " numbers \"projected\", and close the window.",
    isDone: (what, {at}) => what === "token" && at >= prefix,
    miss: (what, {at}) => what === "token" && at < prefix ? `This is the ${nameOf(at)}: first click a patch.` : null,
    room: 50,
    found: ({before: [first]}) => `The first of the ${model.hidden_dim} numbers is ${three(first)}.`,
  },
  {
    title: "Position",
    term: "position embedding",
    part: "picture",
    isOfPatches: true,
    text: () => "All blank patches have the same pixels, so the same projection. The position embedding of the place is"
      + " added to each: the sum is the token of the patch.",
    task: "Click a blank patch.",
    begin: () => choose("look"),
    isDone: (what, token) => what === "pin" && token >= prefix && inkIn(token) === 0,
    miss: (what, token) => what === "pin" && token >= prefix ? "This patch has ink: a blank one is asked for." : null,
    room: 90,
    found: () => `Of this patch the model knows no more than that it is blank and in ${spot(pinned - prefix)}.`,
  },
  {
    title: "Class token",
    term: "class token",
    part: "reader",
    text: () => `One more token belongs to no patch. It gathers what the answer needs: ${prefix + patches} tokens in all.`,
    task: "Press \"class token\", below the picture.",
    isDone: (what, token) => what === "pin" && token === 0,
    miss: what => what === "pin" || what === "block" ? "That was another one: the button is beside \"Query\"." : null,
    room: 75,
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
    room: 55,
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
    room: 25,
  },
  {
    title: "Softmax",
    term: "softmax",
    part: "layer 0",
    text: () => "Softmax turns the scores of a query into weights: positive, and together 1.",
    task: "Click the brightest square of a map, then its number, the largest weight, and close both windows.",
    isDone: (what, {weight, scores, score}) => what === "weight" && weight > 0 && Math.max(...scores) === score,
    miss: (what, {scores}) => {
      if (what !== "weight") return null;
      const largest = now.tokens[scores.indexOf(Math.max(...scores))];
      return `This weight is not the largest of its row: that is the one of the ${nameOf(largest)}.`;
    },
    found: ({weight}) => `It is ${weight.toFixed(4)}; all others together have ${(1 - weight).toFixed(4)}.`,
    room: 95,
  },
  {
    title: "Weighted sum",
    term: "value",
    part: "layer 0",
    text: () => "Every token hands over a value, times its weight: their sum is the output of the head. A large weight is not"
      + " yet a reason for the answer; a head that is switched off adds nothing, and shows what it was needed for.",
    task: "Switch head 1 of layer 0 off: untick it, above its map.",
    isDone: what => what === "render" && state.off.has("0.1"),
    found: () => `${answerNow()} ${before()}`,
    room: 75,
  },
  {
    title: "Heads merged",
    term: "output projection",
    part: "layer 0",
    text: () => "The outputs of all heads stand side by side, and the output projection mixes them.",
    task: "Tick head 1 of layer 0 again, and untick head 0 beside it.",
    isDone: what => what === "render" && state.off.has("0.0") && !state.off.has("0.1"),
    found: () => `${answerNow()} ${before()}`,
    room: 75,
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
    room: 75,
  },
  {
    title: "The next layer",
    term: "encoder block",
    part: "layer 1",
    at: "layer 0",
    text: () => "Layer 1 does the same again, with tokens that layer 0 has changed.",
    task: "Tick layer 0 again, and its head 0: everything is on.",
    isDone: what => what === "render" && state.off.size === 0,
    found: () => `The answer, if the model ended ${now.after.map((logits, layer) => {
      const [first] = ranking(logits);
      return `behind layer ${layer}: ${page.classes[first]} (${percent(probabilities(logits)[first])})`;
    }).join("; ")}.`,
    room: 35 + 27 * page.layers,
  },
  {
    title: "Class head",
    term: "class head",
    part: "answer",
    text: () => "After the last layer only the class token is read: the class head makes a logit for each class of it.",
    task: "Click the logit of the 7, the last number of its row, and close the window.",
    isDone: (what, {one}) => what === "logit" && one === SEVEN,
    found: ({logit}) => `It is ${three(logit)}.`,
    room: 20,
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
    room: goesOn ? 210 : 270,
  },
];

function whereItGoesOn() {
  if (canOpenBeside) {
    return `That is the whole way through this model. Next, with the 7 as it was: ${newThere(beside.patches, patches)}`;
  }
  return `That is the end of the tour here. It goes on in ${beside.file}, beside the file of this page: open that in a browser.`;
}

// What a model has in place of another: how many patches, of how many pixels each
function newThere(some, others) {
  return `${some} patches of ${COUNT / some} pixels in place of ${others} of ${COUNT / others}. The steps are the same, the numbers`
    + " and the maps are new.";
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
  const isOffered = isLast && goesOn && canOpenBeside;
  $("tour-on").hidden = !isOffered;
  if (!isOffered) return;
  $("tour-on").style.visibility = "hidden"; // its room is there at once
  const [there, here] = await Promise.all([addressOfStep(2, "look"), addressOfStep(STEPS.length, "erase")]);
  linkTo($("tour-on"), there, here);
  $("tour-on").style.visibility = "";
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
  $("tour-on").textContent = `Steps 2 to ${STEPS.length} again, in ${beside.name}: ${beside.patches} patches`;
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
    const {example, name, label, pixels, opened} = state;
    ownSeven = {example, name, label, pixels, opened};
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
  document.body.classList.toggle("gridded", STEPS[step]?.isOfPatches === true);
  if (step === null) {
    forgetAddress();
    return;
  }
  const {title, term: name, part, at, text, begin, room} = STEPS[step];
  const task = forHand(STEPS[step].task);
  let told = isPrepared && step > 0 ? prepareDrawing(STEPS[step]) : "";
  if (!isPrepared && step === 1 && beside?.first) told = `What is new here: ${newThere(patches, beside.patches)} `;
  if (isPrepared) begin?.();
  $("tour").dataset.part = part;
  light($("tour"));
  const where = beside ? ` in ${beside.own}` : "";
  $("tour-title").replaceChildren(`${step + 1} of ${STEPS.length}${where}: `, name ? term(name, title) : title);
  $("tour-text").textContent = told + text();
  $("tour-task").textContent = task;
  $("tour-found").textContent = "";
  keepRoom(task, room);
  $("tour-back").disabled = step === 0;
  $("tour-next").textContent = "Skip";
  offerToGoOn();
  bringIntoView(at ?? part);
}

// The panel is as high from the start as what is told will make it: the picture does not move under the pen, nor Next
// under the finger. Digits are wider than most letters.
function keepRoom(task, room) {
  const letters = "0000000 ".repeat(room / 8 + 1);
  $("tour-room").replaceChildren($("tour-text").textContent, " ", make("b", {textContent: task}), " ✓ ", letters);
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

// Something happened: is it what the step asks for? While it is, what is told stays up to date. Of a drawing it is told
// at the end of each stroke. What is once done stays done, unless the answer changes that was told.
function happened(what, detail = {}) {
  if (step === null || (pen && inks())) return;
  const {isDone, miss} = STEPS[step];
  if (!isDone(what, detail)) {
    const isOpen = !$("tour-found").textContent.startsWith("✓");
    const told = miss?.(what, detail) ?? null;
    if (told !== null && (isOpen || what === "render")) $("tour-found").textContent = forHand(told);
    return;
  }
  $("tour-found").textContent = `✓ ${STEPS[step].found(detail)}`;
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
