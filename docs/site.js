// Buttons that copy code, lines that break between the words of code, and
// records in place of tables that are too wide for a telephone.

const LONG = 40;  // Characters of a cell that needs some width.
const LONG_NAME = 12;
const LONG_CLASS = 25;

function copy(text) {
  if (navigator.clipboard) {
    return navigator.clipboard.writeText(text);
  }
  // Without https there is no clipboard but that of a selection.
  const area = document.createElement('textarea');
  area.value = text;
  document.body.append(area);
  area.select();
  const copied = document.execCommand('copy');
  area.remove();
  return copied ? Promise.resolve() : Promise.reject(new Error('not copied'));
}

function addButton(block) {
  const box = document.createElement('div');
  box.className = 'code-box';
  block.replaceWith(box);
  const button = document.createElement('button');
  button.type = 'button';
  button.textContent = 'Copy';
  button.addEventListener('click', async () => {
    try {
      await copy(block.textContent.trimEnd());
      button.textContent = 'Copied';
    } catch {
      button.textContent = 'Not copied';
    }
    setTimeout(() => { button.textContent = 'Copy'; }, 2000);
  });
  box.append(block, button);
}

// Names may break after a slash, a comma, an equals sign or a dot, except
// before a file's ending, and long ones after any underscore, or between the
// words of a class; flags may not break after their dashes.
function allowBreaks(code) {
  const text = code.textContent.replace(/\s+/g, ' ');
  if (/^-\S*$/.test(text)) {
    code.classList.add('flag');
    return;
  }
  const parts = text.split(/(?<=\w[/,=])(?=\w\w)|(?<=\w\.)(?=\w{6})/).flatMap(
      (part) => part.length > LONG_NAME ? part.split(/(?<=_)/) : [part]).flatMap(
      (part) => part.length > LONG_CLASS ? part.split(/(?<=[a-z])(?=[A-Z])/) : [part]);
  code.replaceChildren(...parts.flatMap(
      (part, i) => i ? [document.createElement('wbr'), part] : [part]));
}

function nameCells(table) {
  const headings = [...table.querySelectorAll('thead th')];
  for (const row of table.querySelectorAll('tbody tr')) {
    [...row.cells].forEach((cell, i) => {
      cell.classList.toggle('long', cell.textContent.length > LONG);
      const heading = headings[i]?.textContent.trim();
      if (heading && i > 0) {
        cell.dataset.heading = heading;
      }
    });
  }
}

// Sentences are read in records, and numbers in columns unless these are many.
function chooseRecords(table) {
  table.classList.remove('records');
  const excess = table.scrollWidth / table.clientWidth;
  const limit = table.querySelector('.long') ? 1.01 : 1.5;
  table.classList.toggle('records', excess > limit);
}

const tables = document.querySelectorAll('.rst-content table');
document.querySelectorAll('.rst-content pre').forEach(addButton);
document.querySelectorAll('.rst-content :not(pre) > code').forEach(allowBreaks);
tables.forEach(nameCells);
let width = 0;
for (const event of ['load', 'resize']) {
  window.addEventListener(event, () => {
    // Scrolling resizes, too, but only the height of a telephone's window.
    if (window.innerWidth !== width) {
      width = window.innerWidth;
      tables.forEach(chooseRecords);
    }
  });
}
