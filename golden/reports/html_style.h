// The style sheet and the script of the page.
#pragma once

#include <string_view>

namespace mxo {

/// Colours are variables with a value for light and one for dark; steps h1 to h7 are one hue from
/// near the background to strong.
inline constexpr std::string_view kStyle = R"(
:root{--bg:#fff;--ink:#1d2329;--soft:#5b6672;--line:#d9dee4;--card:#f5f7f9;--good:#1a7f37;
--bad:#c02318;--warn:#9a6200;--info:#0b6b8a;--bar:#8aa4bd;--h1:#fbe3d5;--h2:#f6c4a7;--h3:#ee9f78;
--h4:#df784f;--h5:#c6502f;--h6:#a32e1c;--h7:#74160f}
@media (prefers-color-scheme:dark){:root{--bg:#14181c;--ink:#e3e8ed;--soft:#98a4b0;--line:#323a43;
--card:#1d2329;--good:#4cc26a;--bad:#ff7b6e;--warn:#e2ab4b;--info:#5cc3e4;--bar:#56718c;
--h1:#3a241d;--h2:#5b3022;--h3:#823d27;--h4:#ab4d2d;--h5:#d26539;--h6:#ef8a55;--h7:#ffc08f}}
*{box-sizing:border-box}
body{font:14px/1.45 system-ui,sans-serif;margin:0 auto;padding:1.5rem;max-width:76rem;
background:var(--bg);color:var(--ink)}
h1{font-size:1.35rem;margin:0 0 .25rem;overflow-wrap:anywhere}
h2{font-size:1.1rem;margin:2.2rem 0 .4rem;padding-top:.8rem;border-top:1px solid var(--line);
overflow-wrap:anywhere}
h3{font-size:1rem;margin:1.2rem 0 .3rem}
p{margin:.3rem 0}a{color:inherit}.soft,footer{color:var(--soft)}
code,pre{font:12.5px/1.5 ui-monospace,monospace}
pre{background:var(--card);padding:.6rem .8rem;overflow-x:auto;border-radius:4px}
.totals{display:flex;flex-wrap:wrap;gap:.6rem;margin:1rem 0}
.totals label{background:var(--card);border:1px solid var(--line);border-radius:6px;
padding:.45rem .8rem;cursor:pointer}
.totals b{font-size:1.25rem;margin-right:.35rem}
.PASS{color:var(--good)}.FAIL,.INVALID{color:var(--bad);font-weight:600}.NOT_RUN{color:var(--warn)}
.NOT_COMPARED{color:var(--info)}
input[type=search]{font:inherit;padding:.4rem .6rem;width:min(28rem,100%);background:var(--bg);
color:var(--ink);border:1px solid var(--line);border-radius:6px}
.wide{overflow-x:auto}
table{border-collapse:collapse;margin:.5rem 0}
th{color:var(--soft);font-weight:500;text-align:left}
td,th{padding:.2rem .7rem .2rem 0;border-bottom:1px solid var(--line);vertical-align:top}
td.n,th.n{text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums}
tr.worst td{background:var(--card);font-weight:600}
.why{border-left:3px solid var(--bad);padding:.3rem .8rem;background:var(--card);margin:.6rem 0}
svg{display:block;max-width:none}svg text{fill:var(--soft);font:11px system-ui,sans-serif}
.axis{stroke:var(--soft)}.group{stroke:var(--ink);stroke-dasharray:3 2}.field{fill:var(--card)}
.bar{fill:var(--bar)}.bar0{fill:var(--good)}
.h1{fill:var(--h1)}.h2{fill:var(--h2)}.h3{fill:var(--h3)}.h4{fill:var(--h4)}.h5{fill:var(--h5)}
.h6{fill:var(--h6)}.h7{fill:var(--h7)}
rect.cell:hover{stroke:var(--ink);stroke-width:1.5}
footer{margin-top:2.5rem;border-top:1px solid var(--line);padding-top:.6rem}
)";

/// Rows and sections carry data-verdict and data-text; what is not wanted is hidden.
inline constexpr std::string_view kScript = R"(
const boxes=[...document.querySelectorAll('.totals input')];
const search=document.getElementById('filter');
function sift(){
  const wanted=new Set(boxes.filter(b=>b.checked).map(b=>b.value));
  const words=search.value.toLowerCase().split(/\s+/).filter(w=>w);
  let shown=0;
  for(const e of document.querySelectorAll('[data-verdict]')){
    const ok=wanted.has(e.dataset.verdict)&&words.every(w=>e.dataset.text.includes(w));
    e.hidden=!ok;
    if(ok&&e.tagName==='TR')++shown;
  }
  document.getElementById('shown').textContent=shown;
}
for(const b of boxes)b.addEventListener('change',sift);
search.addEventListener('input',sift);
sift();
)";

}  // namespace mxo
