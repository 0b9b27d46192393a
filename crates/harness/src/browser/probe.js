// Looks at the page from within, as its reader would, and tells what it sees.
(() => {
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  const folded = all('details:not([open])');
  for (const one of folded) one.open = true;
  const touching = (a, b) =>
    a.left + 1 < b.right && b.left + 1 < a.right && a.top + 1 < b.bottom && b.top + 1 < a.bottom;
  const look = (figure) => {
    const svg = figure.querySelector('svg');
    const frame = svg.getBoundingClientRect();
    const marks = all('.mark', svg);
    const isDrawn = (mark) => {
      const box = mark.getBoundingClientRect();
      const style = getComputedStyle(mark);
      const within = box.left >= frame.left - 1 && box.right <= frame.right + 1 && box.top >= frame.top - 1 && box.bottom <= frame.bottom + 1;
      return (box.width > 0 || box.height > 0) && within && (style.fill !== 'none' || style.stroke !== 'none');
    };
    const uprights = all('.error', svg).map((bars) => (bars.getAttribute('d').match(/V/g) || []).length);
    // What is shown of a text that is too long, without the title that holds the whole.
    const shown = (text) => text.lastChild?.textContent;
    const texts = all('text', svg).filter(shown).map((text) => [shown(text), text.getBoundingClientRect()]);
    return {
      id: figure.id,
      marks: marks.length,
      drawn: marks.filter(isDrawn).length,
      hollow: marks.filter((mark) => mark.classList.contains('hollow')).length,
      errors: uprights.reduce((sum, count) => sum + count, 0) + all('.whisker', svg).filter((one) => one.getBBox().height === 0).length,
      // What each mark says when one points at it, and where its middle and how wide it is.
      tips: marks.map((mark) => [mark.querySelector('title')?.textContent ?? '', mark.getBBox()]).map(([tip, box]) => ({ tip, y: box.y + box.height / 2, width: box.width })),
      table: all('tr', figure).map((row) => [...row.cells].map((cell) => cell.textContent)),
      overlaps: texts.flatMap(([text, box], at) => texts.slice(at + 1).filter(([, other]) => touching(box, other)).map(([other]) => `${text} | ${other}`)),
      cut: texts.filter(([, box]) => box.left < frame.left - 1 || box.right > frame.right + 1 || box.top < frame.top - 1 || box.bottom > frame.bottom + 1).map(([text]) => text),
    };
  };
  const ids = all('[id]').map((one) => one.id);
  const seen = {
    width: innerWidth,
    overflow: Math.max(0, document.documentElement.scrollWidth - innerWidth),
    images: document.images.length,
    twice: ids.filter((id, at) => ids.indexOf(id) !== at),
    dangling: all('a[href^="#"]').map((link) => link.hash.slice(1)).filter((id) => !ids.includes(id)),
    // A region that scrolls must be reached by keys: it, or something in it, takes the focus.
    stuck: all('main *, nav *').filter((one) => one.scrollWidth > one.clientWidth + 1 && ['auto', 'scroll'].includes(getComputedStyle(one).overflowX) && one.tabIndex < 0 && !one.querySelector('a[href]')).map((one) => one.outerHTML.slice(0, 80)),
    verdictColours: new Set(all('#verdicts-by-path .mark').map((part) => getComputedStyle(part).fill)).size,
    background: getComputedStyle(document.body).backgroundColor,
    figures: all('figure').map(look),
  };
  for (const one of folded) one.open = false;
  return seen;
})()
