// Definitions where the terms stand: what has data-term shows the glossary's sentence while it is pointed at or
// has the focus, and after a tap. Escape hides it.

let termShown = null;

// A term in a text that a script makes
function term(name, textContent = name) {
  const element = make("span", {textContent, tabIndex: 0});
  element.dataset.term = name;
  element.setAttribute("aria-description", page.terms[name]);
  return element;
}

const termOf = element => element.closest?.("[data-term]") ?? null;

function showTerm(element) {
  const name = element?.dataset.term;
  const text = page.terms[name];
  termShown = text ? element : null;
  $("definition").hidden = !text;
  if (!text) return;
  $("definition").replaceChildren(make("b", {textContent: name}), ` ${text}`);
  (element.closest("dialog") ?? document.body).append($("definition")); // a dialog covers what is outside it
  placeTerm(element.getBoundingClientRect());
}

// Below the term, or above it where there is no room, and never outside the window
function placeTerm({left, top, bottom}) {
  const box = $("definition");
  const {offsetWidth: wide, offsetHeight: tall} = box;
  const isRoom = bottom + tall + 12 < innerHeight;
  const y = isRoom ? bottom + 6 : Math.max(4, top - tall - 6);
  box.style.left = `${limit(left, 8, Math.max(8, document.documentElement.clientWidth - wide - 8))}px`;
  box.style.top = `${y}px`;
}

function buildTerms() {
  document.addEventListener("pointerover", event => {
    if (event.pointerType === "touch") return; // a tap is a click
    const term = termOf(event.target);
    if (term !== termShown) showTerm(term);
  });
  document.addEventListener("focusin", event => {
    if (event.target.matches?.(":focus-visible")) showTerm(termOf(event.target));
  });
  document.addEventListener("focusout", () => showTerm(null));
  document.addEventListener("click", event => showTerm(termOf(event.target)));
  document.addEventListener("keydown", event => {
    if (event.key === "Escape") showTerm(null);
  });
  addEventListener("scroll", () => {
    if (termShown) placeTerm(termShown.getBoundingClientRect());
  }, {passive: true, capture: true});
  for (const element of document.querySelectorAll("[data-term]")) {
    element.setAttribute("aria-description", page.terms[element.dataset.term] ?? "");
  }
}
