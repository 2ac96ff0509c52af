// The picture with its answer beside it, as a PNG file.

const SIDE = 448; // pixels of the picture in the file

function drawAnswer(brush, left, size) {
  const is = probabilities(now.logits);
  const best = ranking(is).slice(0, 5);
  brush.fillStyle = "#1c1e21";
  brush.font = "600 40px system-ui, sans-serif";
  brush.fillText($("verdict").querySelector("strong").textContent, left, 64, size);
  brush.font = "20px system-ui, sans-serif";
  best.forEach((i, at) => {
    const y = 130 + 56 * at;
    brush.fillStyle = "#1c1e21";
    brush.fillText(`${page.classes[i]}  ${percent(is[i])}`, left, y, size);
    brush.fillStyle = "#dcdcd6";
    brush.fillRect(left, y + 8, size, 12);
    brush.fillStyle = "#0b63c5";
    brush.fillRect(left, y + 8, size * is[i], 12);
  });
  brush.fillStyle = "#5b6169";
  brush.font = "15px system-ui, sans-serif";
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
