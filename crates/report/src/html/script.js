'use strict';
(() => {
  const root = document.documentElement;

  // A switch between light and dark, from what the system prefers.
  const dark = matchMedia('(prefers-color-scheme: dark)');
  const button = (label, says, act) => {
    const one = document.createElement('button');
    one.type = 'button';
    one.textContent = label;
    one.setAttribute('aria-label', says);
    one.addEventListener('click', act);
    return one;
  };
  const isDark = () => (root.dataset.theme || (dark.matches ? 'dark' : 'light')) === 'dark';
  const theme = button('', '', () => {
    root.dataset.theme = isDark() ? 'light' : 'dark';
    label();
  });
  const label = () => {
    theme.textContent = isDark() ? 'Light' : 'Dark';
    theme.setAttribute('aria-label', isDark() ? 'Light colours' : 'Dark colours');
  };
  theme.className = 'theme';
  dark.addEventListener('change', label);
  label();
  document.querySelector('header').prepend(theme);

  // Downloads: the drawing with its style, and the table as RFC 4180 has it.
  const save = (name, type, text) => {
    const link = document.createElement('a');
    link.href = URL.createObjectURL(new Blob([text], { type }));
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  };
  const style = '<style>' + document.getElementById('figure-style').content.textContent + '</style>';
  const ground = '<rect class="paper" width="100%" height="100%"/>';
  const svg = (figure) =>
    new XMLSerializer().serializeToString(figure.querySelector('svg')).replace('>', () => '>' + style + ground);
  // A spreadsheet would compute what begins like a formula, unless it is a number.
  const isNumber = (cell) => /^[+-]?[\d.]+(e[+-]?\d+)?$/i.test(cell);
  const disarmed = (cell) => (/^[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20]/.test(cell) && !isNumber(cell) ? "'" + cell : cell);
  const quoted = (cell) => (/[",\r\n]/.test(cell) ? '"' + cell.replaceAll('"', '""') + '"' : cell);
  const csv = (figure) =>
    [...figure.querySelectorAll('tr')]
      .map((row) => [...row.cells].map((cell) => quoted(disarmed(cell.textContent))).join(',') + '\r\n')
      .join('');
  for (const figure of document.querySelectorAll('figure')) {
    const title = figure.querySelector('svg').getAttribute('aria-label');
    const tools = document.createElement('div');
    tools.className = 'tools';
    tools.append(
      button('SVG', 'Download as SVG: ' + title, () => save(figure.id + '.svg', 'image/svg+xml', svg(figure))),
      button('CSV', 'Download as CSV: ' + title, () => save(figure.id + '.csv', 'text/csv', csv(figure))),
    );
    figure.append(tools);
  }

  // Whatever is folded is printed too.
  addEventListener('beforeprint', () => {
    for (const group of document.querySelectorAll('details.group')) group.open = true;
  });
})();
