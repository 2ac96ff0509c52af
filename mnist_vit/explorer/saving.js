// The picture with its answer beside it, as a PNG file.

const SIDE = 448; // pixels of the picture in the file

const count = (number, one, many) => `${number} ${number === 1 ? one : many}`;

// What is changed, in words; "" if nothing is
function changesInWords() {
  const {order, removed, off} = state;
  const moved = order.filter((patch, place) => patch !== place).length;
  const told = [];
  if (isRedrawn()) told.push("drawn on");
  if (removed.size > 0) told.push(`${count(removed.size, "patch", "patches")} removed`);
  if (moved > 0) told.push(`${moved} patches moved`);
  if (off.size > 3) told.push(`${off.size} heads or layers off`);
  else if (off.size > 0) told.push(`${[...off].map(nameOfPart).join(", ")} off`);
  return told.join("; ");
}

function nameOfPart(key) {
  const [layer, head] = key.split(".");
  return head === undefined ? `layer ${layer}` : `head ${head} of layer ${layer}`;
}

// A text in as many lines as it needs, from the first one's baseline
function drawLines(brush, text, left, top, size, step) {
  let told = "";
  let y = top;
  for (const word of text.split(" ")) {
    const longer = `${told} ${word}`.trim();
    if (told !== "" && brush.measureText(longer).width > size) {
      brush.fillText(told, left, y, size);
      told = word;
      y += step;
    } else {
      told = longer;
    }
  }
  brush.fillText(told, left, y, size);
}

function drawAnswer(brush, left, size) {
  const is = probabilities(now.logits);
  const best = ranking(is).slice(0, 5);
  brush.fillStyle = "#1c1e21";
  brush.font = "600 40px system-ui, sans-serif";
  brush.fillText($("verdict").querySelector("strong").textContent, left, 56, size);
  brush.font = "20px system-ui, sans-serif";
  if (isAnswerWrong()) brush.fillStyle = "#c02b2b";
  brush.fillText(truthInWords(), left, 86, size);
  best.forEach((i, at) => {
    const y = 126 + 50 * at;
    brush.fillStyle = "#1c1e21";
    brush.fillText(`${page.classes[i]}  ${percent(is[i])}`, left, y, size);
    brush.fillStyle = "#dcdcd6";
    brush.fillRect(left, y + 8, size, 12);
    brush.fillStyle = "#0b63c5";
    brush.fillRect(left, y + 8, size * is[i], 12);
  });
  brush.fillStyle = "#5b6169";
  brush.font = "15px system-ui, sans-serif";
  drawLines(brush, changesInWords(), left, 374, size, 19);
  brush.fillText(`${document.title}, a Vision Transformer`, left, 430, size);
}

function drawSaved() {
  const canvas = make("canvas", {width: hasClasses ? 2 * SIDE : SIDE, height: SIDE});
  const brush = canvas.getContext("2d");
  brush.fillStyle = "#fff";
  brush.fillRect(0, 0, canvas.width, SIDE);
  brush.imageSmoothingEnabled = false;
  const scale = Math.min(SIDE / width, SIDE / height);
  for (const id of ["picture", "cover"]) brush.drawImage($(id), 0, 0, width * scale, height * scale);
  if (hasClasses) drawAnswer(brush, SIDE + 32, SIDE - 64);
  return canvas;
}

function savePicture() {
  drawSaved().toBlob(blob => {
    const href = URL.createObjectURL(blob);
    make("a", {href, download: "picture.png"}).click();
    notice("picture.png, the picture and the answer, is in your downloads.");
    setTimeout(() => URL.revokeObjectURL(href), 10_000);
  });
}
