// Looks at the page from within, as its reader would, and writes what it sees into the document around it, a line each.
(() => {
  const lines = [];
  const say = (...words) => lines.push(words.join(' '));
  say('width', innerWidth);
  say('overflow', Math.max(0, document.documentElement.scrollWidth - innerWidth));
  say('images', document.images.length);
  const stops = 'a[href], button, summary, [tabindex="0"]';
  say('first-stop', document.querySelector(stops).className);
  say('unreachable', [...document.querySelectorAll(stops)].filter((one) => one.tabIndex < 0).length);
  const background = () => getComputedStyle(document.body).backgroundColor.replaceAll(' ', '');
  const fills = [...document.querySelectorAll('#verdicts-by-path .mark')].map((part) => getComputedStyle(part).fill);
  say('verdict-colours', new Set(fills).size);
  say('background', background());
  document.querySelector('button.theme').click();
  say('switched', background());
  document.querySelector('button.theme').click();
  for (const details of document.querySelectorAll('details')) details.open = true;
  for (const figure of document.querySelectorAll('figure')) {
    const frame = figure.querySelector('svg').getBoundingClientRect();
    const marks = [...figure.querySelectorAll('svg .mark')];
    const drawn = marks.filter((mark) => {
      const box = mark.getBoundingClientRect();
      const style = getComputedStyle(mark);
      const within = box.left >= frame.left - 1 && box.right <= frame.right + 1 && box.top >= frame.top - 1 && box.bottom <= frame.bottom + 1;
      return (box.width > 0 || box.height > 0) && within && (style.fill !== 'none' || style.stroke !== 'none');
    });
    window.saved.length = 0;
    for (const button of figure.querySelectorAll('.tools button')) button.click();
    const [svg, csv] = window.saved;
    const parsed = new DOMParser().parseFromString(svg.text, 'image/svg+xml');
    const whole = !parsed.querySelector('parsererror') && parsed.querySelectorAll('.mark').length === marks.length && !!parsed.querySelector('style');
    const rows = csv.text.trimEnd().split('\r\n').length - 1;
    say('figure', figure.id, marks.length, drawn.length, svg.name, whole, csv.name, rows === figure.querySelectorAll('tbody tr').length && rows > 0);
  }
  const result = top.document.createElement('pre');
  result.id = 'result';
  result.textContent = lines.join('\n');
  top.document.body.append(result);
})();
