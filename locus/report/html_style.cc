// The page's style: light and dark by the reader's setting, one color for each device, narrow screens, print.
#include "locus/report/html_parts.h"

namespace locus::report {

const char* const kHtmlStyle = R"css(
:root{--bg:#f6f7f8;--card:#fff;--ink:#1c2127;--dim:#5a6470;--line:#dfe3e8;--soft:#f0f2f4;--error:#b3261e;
--warning:#8a5a00;--ok:#1a7340;--del:#fdecea;--delmark:#f7c6c1;--ins:#e6f5ec;--insmark:#aee0c2;--link:#0b5cad;
--cpu:#a04e00;--d0:#0b5cad;--d1:#6a3db5;--d2:#00746a;--d3:#ad2273;--d4:#3d6b00;--d5:#0f6f88;--d6:#84479a;--d7:#755800;
--dx:#5a6470;--mono:ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace}
@media (prefers-color-scheme:dark){:root{--bg:#111417;--card:#191d22;--ink:#e4e8ec;--dim:#9ba6b2;--line:#2d343c;
--soft:#20252b;--error:#ff8a80;--warning:#e8b84a;--ok:#63d391;--del:#3a1f20;--delmark:#703031;--ins:#17301f;
--insmark:#23613b;--link:#7cb8ff;--cpu:#f2a55f;--d0:#72b4ff;--d1:#bb9eff;--d2:#51d0bf;--d3:#ff8fc8;--d4:#a4d35f;
--d5:#6fcde6;--d6:#d9a3e8;--d7:#dfc05c;--dx:#9ba6b2}}
*,::before,::after{box-sizing:border-box}
html{scroll-padding-top:3.4rem;scroll-behavior:smooth}
body{margin:0;background:var(--bg);color:var(--ink);font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,
"Helvetica Neue",Arial,sans-serif;overflow-wrap:anywhere}
header,main,footer{max-width:1080px;margin:0 auto;padding:0 20px}
code,.at,.no,.id{font-family:var(--mono);font-size:.88em}
small{font-size:.84em;color:var(--dim)}
a{color:var(--link)}
.skip{position:absolute;left:-999px}.skip:focus{left:8px;top:8px;background:var(--card);padding:4px 10px;z-index:9}
.sr{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%)}
.dim,.at,.no,.id{color:var(--dim)}.at{overflow-wrap:break-word}
.cpu{--c:var(--cpu)}.d0{--c:var(--d0)}.d1{--c:var(--d1)}.d2{--c:var(--d2)}.d3{--c:var(--d3)}.d4{--c:var(--d4)}
.d5{--c:var(--d5)}.d6{--c:var(--d6)}.d7{--c:var(--d7)}.dx{--c:var(--dx)}
.chip{display:inline-block;font:600 .8em/1.5 var(--mono);color:var(--c);border:1px solid;border-radius:5px;
padding:0 6px;background:color-mix(in srgb,var(--c) 10%,transparent);border-color:color-mix(in srgb,var(--c) 45%,
transparent);white-space:nowrap}
header{padding-top:30px}
.brand{font-weight:700;letter-spacing:.02em;color:var(--dim)}
h1{font:600 1.15rem/1.4 var(--mono);margin:2px 0 0}
h2{font-size:1.2rem;margin:0 0 12px}h3{font-size:1rem;margin:22px 0 8px}
h4{font-size:.8rem;margin:20px 0 7px;color:var(--dim);font-weight:600}
.verdict{font-size:1.9rem;line-height:1.25;font-weight:700;margin:12px 0 14px}
.verdict small{display:inline-block;font-size:.95rem;font-weight:400}
.verdict.error{color:var(--error)}.verdict.warning{color:var(--warning)}.verdict.ok{color:var(--ok)}
.facts{display:flex;flex-wrap:wrap;gap:10px 34px;margin:0 0 20px}
.facts div{min-width:0}.facts dt{font-size:.8rem;color:var(--dim)}
.facts dd{margin:0;font-weight:600;font-variant-numeric:tabular-nums}.peakof{margin-right:14px;white-space:nowrap}
nav{position:sticky;top:0;z-index:5;background:var(--card);border-block:1px solid var(--line);display:flex;
overflow-x:auto;padding:0 max(20px,calc((100% - 1040px)/2));gap:4px}
nav a{padding:9px 12px;text-decoration:none;color:var(--ink);white-space:nowrap;font-size:.92rem}
nav a:first-child{margin-left:-12px}
nav a:hover{color:var(--link);box-shadow:inset 0 -2px var(--link)}
:focus-visible{outline:2px solid var(--link);outline-offset:2px;border-radius:3px}
section{margin:30px 0 44px}
.lead{color:var(--dim);margin:-6px 0 12px}
.scroll{overflow-x:auto;position:relative}
table{border-collapse:collapse;width:100%;background:var(--card);border:1px solid var(--line)}
th{font-size:.8rem;font-weight:600;color:var(--dim);text-align:left}
caption{text-align:left;color:var(--dim);font-size:.84em;padding:8px 0 6px}
td,th{overflow-wrap:break-word;padding:7px 12px;border-top:1px solid var(--line);vertical-align:top}
.n{text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums}
.b{width:30%;min-width:90px;vertical-align:middle}
.bars .at{color:var(--ink)}
.bar{display:block;height:11px;min-width:2px;border-radius:2px;background:var(--c,var(--dim))}
.edits td{padding:9px 12px}
.edits .num{width:1%;text-align:right}.edits .num a{text-decoration:none;font-weight:700;padding:4px}
.edits tr.error .num{box-shadow:inset 3px 0 var(--error)}.edits tr.warning .num{box-shadow:inset 3px 0 var(--warning)}
.edits tr.error .num a{color:var(--error)}.edits tr.warning .num a{color:var(--warning)}
.edits td:nth-child(2) .at{color:var(--ink);font-weight:600}.edits td:nth-child(2){min-width:16ch;width:26%}.way{white-space:nowrap}.edits td:nth-child(3){min-width:20ch;width:25%}
.edits td:last-child{min-width:22ch}.edits td:nth-child(n+3) code{overflow-wrap:anywhere}
ins,del{text-decoration:none;border-radius:3px}
ins{background:var(--insmark)}del{background:var(--delmark)}
.sechead{display:flex;flex-wrap:wrap;gap:8px 20px;align-items:baseline;justify-content:space-between;margin-bottom:12px}
.sechead h2{margin:0}
.tools{display:flex;flex-wrap:wrap;gap:8px}.tools[hidden]{display:none}
button,input{font:inherit;font-size:.84rem;color:var(--ink);background:var(--card);border:1px solid var(--line);
border-radius:6px;padding:4px 10px}
button{cursor:pointer}button:hover{border-color:var(--dim)}input{min-width:24ch}
summary{cursor:pointer}
.finding{background:var(--card);border:1px solid var(--line);border-left:4px solid var(--error);border-radius:6px;
margin:0 0 12px}
.finding.warning{border-left-color:var(--warning)}
.finding>summary{display:flex;flex-wrap:wrap;gap:4px 12px;align-items:baseline;padding:11px 16px;list-style:none}
.finding>summary::-webkit-details-marker{display:none}
.finding>summary::before{content:"▸";color:var(--dim);width:.8em}.finding[open]>summary::before{content:"▾"}
.finding .num{font-weight:700;color:var(--dim)}
.finding .head{flex:1 1 22rem;font-weight:600}.finding .head code{font-weight:700}
.finding[hidden]{display:none}
a.badge{text-decoration:none}a.badge:hover{text-decoration:underline}.hit{fill:transparent}.hit:hover{fill:currentColor;opacity:.15}
.badge{font:600 .78em/1.5 var(--mono);color:var(--error);white-space:nowrap}.badge.warning{color:var(--warning)}
.body{padding:0 18px 12px}
.msg{margin:0 0 12px;color:var(--dim)}
.why,.note{margin:12px 0}.why b,.note b{margin-right:.5em}
.note{border-left:3px solid var(--warning);padding-left:12px}
.fix{border:1px solid var(--line);border-radius:6px;overflow:hidden;margin:0 0 12px}
.fixhead{display:flex;flex-wrap:wrap;gap:4px 10px;align-items:center;background:var(--soft);padding:6px 12px}
.fixhead .at{color:var(--ink)}.fix p{margin:0;padding:6px 12px;font-size:.88em;border-top:1px solid var(--line)}
.fix ul{margin:8px 0;padding-left:30px}
.tag{font-size:.8rem;color:var(--dim)}.tag.ok{color:var(--ok);font-weight:600}.tag.new{color:var(--error);font-weight:600}
.copy{margin-left:auto;padding:1px 9px}
.diff>div{display:flex;width:max-content;min-width:100%;padding:3px 12px;white-space:pre;overflow-wrap:normal}
.diff>div::before{width:1.6em;font-family:var(--mono);flex:none;color:var(--dim)}
div.del{background:var(--del)}div.ins{background:var(--ins)}
div.del::before{content:"−"}div.ins::before{content:"+"}
.path{display:flex;align-items:stretch}
.lanes{flex:1 1 auto;min-width:0}
.lane{display:flex;align-items:stretch;padding:9px 0}.lane+.lane{border-top:1px dashed var(--line)}
.who{flex:0 0 180px;padding-right:12px}.who code{display:block;font-weight:600}.who small{display:block}
.lane.culprit .who code{color:var(--error)}
.lane ol{flex:1;display:flex;list-style:none;margin:0;padding:0;min-width:0}
.lane li{position:relative;flex:1 1 0;min-width:0;padding:20px 14px 0 0;font-size:.86em}
.lane li b{display:block;font-weight:500;line-height:1.35}.lane li .at{display:block}.lane li .chip{margin-top:3px}
.lane li::before{content:"";position:absolute;left:0;right:0;top:7px;height:4px;background:var(--c)}
.lane li::after{content:"";position:absolute;left:0;top:2px;width:14px;height:14px;border-radius:50%;
background:var(--card);border:4px solid var(--c)}
.meet{flex:0 0 170px;display:flex;flex-direction:column;justify-content:center;gap:1px;padding:8px 12px;
border:2px solid var(--error);border-radius:6px}
.warning .meet{border-color:var(--warning)}
.meet code{font-weight:700;color:var(--error)}.warning .meet code{color:var(--warning)}
.src{margin:0 0 10px;border:1px solid var(--line);border-radius:6px;overflow:hidden}
.src figcaption{background:var(--soft);padding:4px 12px;font-size:.9em}
.src .scroll{padding:7px 0}
.ln,.lab{display:flex;width:max-content;min-width:100%;white-space:pre;overflow-wrap:normal}
.ln .no{flex:0 0 4.2em;text-align:right;padding-right:1.2em;user-select:none}
.ln.bad .no{color:var(--error);font-weight:700}
mark{background:none;color:inherit;border-bottom:2px solid var(--dim);font-weight:600}
mark.bad{border-color:var(--error)}.warning mark.bad{border-color:var(--warning)}
.lab{font-family:var(--mono);font-size:.825rem;margin-left:4.2em;color:var(--dim);gap:18px;padding-bottom:3px}
.lab b{color:var(--ink)}.lab span{font-family:system-ui,sans-serif}.lab.bad>span:first-child{color:var(--error);font-weight:600}
.warning .lab.bad>span:first-child{color:var(--warning)}
.gap{padding-left:3.2em;color:var(--dim);line-height:1}
.places{margin:0;padding:0;list-style:none;display:flex;flex-wrap:wrap;gap:4px 22px}
.more{margin:8px 0}.more>summary{color:var(--link);padding:4px 0}
.foot{font-size:.82em;margin:16px 0 0}
.tree{background:var(--card);border:1px solid var(--line);border-radius:6px;padding:10px 16px}
.mod>div{margin-left:8px;padding-left:16px;border-left:1px solid var(--line)}
.mod>summary{padding:2px 0}
.mod>summary>*,.tensor>*{margin-right:10px;vertical-align:middle}
.split{display:inline-flex;width:84px;height:9px;border-radius:2px;overflow:hidden;background:var(--soft)}
.split i,.dot{background:var(--c)}.split i{min-width:6px}
.tensor{padding:1px 0 1px 17px}
.dot{display:inline-block;width:9px;height:9px;border-radius:2px}
.tensor.lost .warn{color:var(--warning);font-weight:600}
.chart{display:flex;background:var(--card);border:1px solid var(--line);border-radius:6px;padding:16px 16px 30px 8px}
.axis{flex:0 0 76px;display:flex;flex-direction:column;justify-content:space-between;text-align:right;font-size:.78rem;
color:var(--dim);padding-right:8px;height:180px;line-height:1;font-variant-numeric:tabular-nums}
.plot{position:relative;flex:1;height:180px;min-width:0;border-left:1px solid var(--line);
border-bottom:1px solid var(--line)}
.plot svg{position:absolute;inset:0;width:100%;height:100%}
.plot path{fill:var(--c)}.plot .high{opacity:.38}.plot .low{opacity:.85}.plot .kind{opacity:1}
.tick,.grid{stroke:var(--line);vector-effect:non-scaling-stroke;stroke-width:1}
.plot .peak{position:absolute;width:10px;height:10px;margin:-5px;border-radius:50%;background:var(--card);
border:3px solid var(--c)}
.steps span{position:absolute;top:100%;margin-top:6px;transform:translateX(-50%);font-size:.78rem;color:var(--dim);
white-space:nowrap;line-height:1}
footer{color:var(--dim);font-size:.86rem;padding-top:14px;padding-bottom:40px;border-top:1px solid var(--line)}
@media (max-width:760px){
header,main,footer{padding-left:14px;padding-right:14px}nav{padding:0 14px}
.verdict{font-size:1.5rem}.facts{gap:8px 22px}
.edits thead{display:none}.edits,.edits tbody,.edits tr,.edits td{display:block;width:auto!important}
.edits tr{border-top:1px solid var(--line);padding:8px 0;position:relative}
.edits td{border:0;padding:2px 12px 2px 44px;min-width:0!important}
.edits tr.error,.edits tr.warning{box-shadow:inset 3px 0 var(--error)}.edits tr.warning{box-shadow:inset 3px 0 var(--warning)}
.edits .num{position:absolute;left:0;top:8px;width:40px!important;padding:2px 0 2px 8px;box-shadow:none!important;text-align:center}
.finding>summary{padding:10px 12px}.body{padding:0 12px 10px}
.path,.lane{display:block}.who{padding:0 0 6px}.who code,.who small{display:inline;margin-right:8px}
.lane ol{display:block}
.lane li{padding:0 0 12px 24px}
.lane li::before{left:5px;right:auto;top:4px;bottom:-4px;width:4px;height:auto}.lane li::after{top:3px}
.meet{margin-top:4px}
.axis{flex-basis:62px}.b{min-width:56px;width:auto}td,th{padding:6px 8px}
.diff>div{white-space:pre-wrap;width:auto}.diff code{min-width:0;overflow-wrap:anywhere}
}
@media (max-width:480px){.b{display:none}.bars td,.bars th{padding:6px}.bars td{font-size:.86rem}.bars .at{overflow-wrap:anywhere}
.tools{width:100%}.tools input{flex:1 1 100%}}
@media print{
:root{--bg:#fff;--card:#fff;--soft:#f3f4f5}body{font-size:11pt}nav,.skip,.tools,.copy{display:none!important}
.fix,.src,.chart,.path,tr{break-inside:avoid}h2,h3,h4,summary{break-after:avoid}.scroll{overflow:visible}
.diff>div,.ln{white-space:pre-wrap;width:auto}
details::details-content{content-visibility:visible;block-size:auto}
*{print-color-adjust:exact;-webkit-print-color-adjust:exact}
}
@media (prefers-reduced-motion:reduce){html{scroll-behavior:auto}}
)css";

}  // namespace locus::report
