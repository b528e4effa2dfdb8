#include "oubli/report/page.h"

namespace oubli::report {

// Colours of the series: Okabe and Ito's palette, which people with any common colour blindness can
// tell apart; lighter variants on the dark page. Markers differ in shape too (svg.cpp).
const char* style_sheet() {
  return R"css(
:root {
  color-scheme: light dark;
  --page: #fcfcfa; --card: #ffffff; --ink: #1b1e23; --soft: #5b626c; --line: #dfe1e4;
  --grid: #e8eaec; --floor: #c9ced4; --floormid: #878e97; --link: #00568a;
  --s0: #0072b2; --s1: #d55e00; --s2: #aa4499; --s3: #b07d00; --s4: #00795a; --s5: #4c4f55;
  --good: #00568a; --fair: #8a5a00; --poor: #a83f00;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #14171b; --card: #1c2026; --ink: #e9ebee; --soft: #a4abb5; --line: #343a43;
    --grid: #2a2f37; --floor: #474e59; --floormid: #98a1ad; --link: #7cc4f2;
    --s0: #56b4e9; --s1: #ff8b4a; --s2: #e093cc; --s3: #f0c040; --s4: #3fd0a0; --s5: #c2c7ce;
    --good: #7cc4f2; --fair: #f0c040; --poor: #ff9b61;
  }
}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body {
  margin: 0; background: var(--page); color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", "DejaVu Sans", sans-serif;
}
main { max-width: 1180px; margin: 0 auto; padding: 28px 20px 64px; }
header p.kind { margin: 0; color: var(--soft); font-size: 14px; letter-spacing: .02em; }
h1 { font-size: 26px; line-height: 1.25; margin: 2px 0 18px; overflow-wrap: anywhere; }
h2 { font-size: 20px; line-height: 1.3; margin: 44px 0 6px; padding-top: 14px; border-top: 1px solid var(--line); overflow-wrap: anywhere; }
h3 { font-size: 16px; margin: 26px 0 4px; overflow-wrap: anywhere; }
p, li { max-width: 72ch; overflow-wrap: anywhere; }
p { margin: 6px 0 12px; }
a { color: var(--link); }
nav { margin: 18px 0 0; font-size: 14px; display: flex; flex-wrap: wrap; gap: 4px 16px; }
.answer { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 22px 24px 14px; }
.answer h2 { border: 0; margin: 0; padding: 0; font-size: 15px; font-weight: 600; color: var(--soft); }
.answer p.sentence { font-size: 20px; line-height: 1.45; margin: 6px 0 16px; max-width: 62em; }
.note { color: var(--soft); font-size: 14px; }
.panels { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 340px), 1fr)); gap: 14px; align-items: start; margin: 12px 0; }
.pairs { grid-template-columns: repeat(auto-fill, minmax(min(100%, 420px), 1fr)); }
figure { margin: 0; min-width: 0; }
.panels > figure { background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: 10px 8px 8px; }
figcaption { font-size: 14px; color: var(--soft); margin: 6px 4px 2px; }
svg.chart { display: block; width: 100%; max-width: 430px; height: auto; margin: 0 auto; }
.answer svg.chart { margin: 0; }
svg.frontier { max-width: 760px; }
svg.wide { max-width: 1000px; }
svg.narrow { display: none; }
@media (max-width: 760px) {
  main { padding: 16px 12px 40px; }
  .answer { padding: 16px 14px 10px; }
  .answer p.sentence { font-size: 18px; }
  svg.wide { display: none; }
  svg.narrow { display: block; }
}
svg text { font: 12px system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", "DejaVu Sans", sans-serif; fill: var(--ink); }
svg text.title { font-size: 14px; font-weight: 600; }
svg text.big { font-size: 15px; }
svg text.label { paint-order: stroke; stroke: var(--card); stroke-width: 3px; }
svg text.tick, svg text.axis, svg text.legend { fill: var(--soft); }
svg text.tick, svg text.axis { font-size: 11px; }
svg text.value { font-variant-numeric: tabular-nums; fill: var(--soft); }
svg text.level0 { fill: var(--good); font-weight: 600; }
svg text.level1 { fill: var(--fair); font-weight: 600; }
svg text.level2 { fill: var(--poor); font-weight: 600; }
svg text.level3 { fill: var(--soft); }
svg text.level4 { fill: var(--fair); font-weight: 600; }
svg .grid { stroke: var(--grid); } svg .zero { stroke: var(--floormid); }
svg .track { stroke: var(--line); }
svg .floor { fill: var(--floor); opacity: .8; } svg .floormid { stroke: var(--floormid); stroke-width: 2; }
svg .reference { fill: var(--floor); stroke: var(--floormid); stroke-width: .75; }
svg .error { stroke: var(--ink); stroke-width: 1.2; }
svg .whisker { stroke-width: 2.2; stroke-linecap: round; }
svg .m { stroke: var(--card); stroke-width: 1; }
svg .whisker.s0 { stroke: var(--s0); } svg .m.s0, svg .bar.s0 { fill: var(--s0); }
svg .whisker.s1 { stroke: var(--s1); } svg .m.s1, svg .bar.s1 { fill: var(--s1); }
svg .whisker.s2 { stroke: var(--s2); } svg .m.s2, svg .bar.s2 { fill: var(--s2); }
svg .whisker.s3 { stroke: var(--s3); } svg .m.s3, svg .bar.s3 { fill: var(--s3); }
svg .whisker.s4 { stroke: var(--s4); } svg .bar.s4 { fill: var(--s4); }
svg .m.s4 { stroke: var(--s4); stroke-width: 2.6; fill: none; }
svg .whisker.s5 { stroke: var(--s5); } svg .bar.s5 { fill: var(--s5); }
svg .m.s5 { stroke: var(--s5); stroke-width: 2.2; fill: var(--card); }
details { margin: 6px 4px 4px; font-size: 14px; }
summary { cursor: pointer; color: var(--link); }
summary > h2, summary > h3 { display: inline-block; }
.folded h2 { margin: 10px 0 4px; border: 0; padding: 0; }
details.fold { margin: 6px 0; font-size: inherit; }
p.paper { display: none; }
.scroll { overflow-x: auto; margin: 8px 0; }
table { border-collapse: collapse; font-size: 14px; line-height: 1.4; }
th, td { text-align: left; padding: 4px 14px 4px 0; border-bottom: 1px solid var(--line); vertical-align: top; }
th { color: var(--soft); font-weight: 600; vertical-align: bottom; }
th.n, td.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
td.n.long { white-space: normal; min-width: 20ch; }
ul.warnings { list-style: none; margin: 10px 0; padding: 8px 14px; border-left: 4px solid var(--poor); background: var(--card); }
ul.warnings li { margin: 2px 0; }
figure > p.note { margin: 6px 4px 4px; font-size: 13px; }
dl { display: grid; grid-template-columns: max-content minmax(0, 1fr); gap: 4px 18px; font-size: 14px; margin: 10px 0; }
dt { color: var(--soft); } dd { margin: 0; overflow-wrap: anywhere; }
dd.hex { font: 13px/1.5 ui-monospace, "DejaVu Sans Mono", monospace; }
img.sheet { max-width: 100%; height: auto; image-rendering: pixelated; background: #fff; border: 1px solid var(--line); }
@media (max-width: 560px) { dl { grid-template-columns: minmax(0, 1fr); gap: 0; } dd { margin-bottom: 8px; } }
@media print {
  :root {
    color-scheme: light;
    --page: #fff; --card: #fff; --ink: #000; --soft: #444; --line: #bbb; --grid: #e2e2e2;
    --floor: #c9ced4; --floormid: #777; --link: #000;
    --s0: #0072b2; --s1: #d55e00; --s2: #aa4499; --s3: #b07d00; --s4: #00795a; --s5: #4c4f55;
    --good: #00568a; --fair: #8a5a00; --poor: #a83f00;
  }
  * { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
  body { font-size: 10.5pt; }
  main { padding: 0; max-width: none; }
  nav { display: none; }
  h2, h3, h2 + p, h3 + p { break-after: avoid; }
  figure, tr, p, .answer { break-inside: avoid; }
  /* with its caption on one sheet of paper, A4 or letter */
  img.sheet { max-height: 200mm; }
  table { font-size: 8.5pt; }
  th, td { padding-right: 10px; }
  th.n, td.n { white-space: normal; }
  /* a picture and its numbers side by side: paper does not scroll */
  .panels { display: block; }
  .panels > figure { display: grid; grid-template-columns: 42% minmax(0, 1fr); gap: 10px; align-items: start; margin: 0 0 10px; }
  .panels > figure details { margin: 0; }
  .panels > figure > p.note { grid-column: 1 / -1; margin: 0; font-size: 8pt; }
  td.n.long { min-width: 0; }
  .panels table { font-size: 7.5pt; line-height: 1.25; width: 100%; }
  .panels th, .panels td { padding-right: 6px; }
  th { overflow-wrap: anywhere; hyphens: auto; }
  body.full details::details-content { content-visibility: visible; block-size: auto; }
  body:not(.full) details, .folded { display: none; }
  body:not(.full) .panels { display: grid; grid-template-columns: 1fr 1fr 1fr; gap: 8px; }
  body:not(.full) .panels > figure { display: block; margin: 0; padding: 4px; }
  p.paper { display: block; }
  summary { list-style: none; }
  .scroll { overflow: visible; }
}
)css";
}

}  // namespace oubli::report
