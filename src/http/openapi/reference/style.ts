/** The page's only stylesheet. Its hash is in the content security policy, so it is sent exactly as written here. */
export const STYLE = `
:root{color-scheme:light dark;--ink:#1b2430;--soft:#566273;--paper:#fff;--panel:#f5f7fa;--line:#dde3ea;--accent:#0b62c4;
--get:#0b6e4f;--post:#0b62c4;--delete:#b3261e;--good:#0b6e4f;--bad:#a34100;--code:#eef2f6}
@media (prefers-color-scheme:dark){:root{--ink:#e4e9f0;--soft:#9aa7b8;--paper:#11161d;--panel:#181f28;--line:#2a3441;
--accent:#7db7ff;--get:#5fd0a5;--post:#7db7ff;--delete:#ff9b91;--good:#5fd0a5;--bad:#ffb27a;--code:#1d2631}}
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%}
body{margin:0;background:var(--paper);color:var(--ink);font:16px/1.6 system-ui,sans-serif}
a{color:var(--accent)}
:focus-visible{outline:2px solid var(--accent);outline-offset:2px;border-radius:3px}
code,pre{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;font-size:.875em}
code{background:var(--code);border-radius:4px;padding:.1em .3em;overflow-wrap:anywhere}
pre{background:var(--panel);border:1px solid var(--line);border-radius:8px;padding:.75rem 1rem;overflow-x:auto;line-height:1.5}
pre code{background:none;padding:0;font-size:1em;overflow-wrap:normal}
.skip{position:absolute;left:-999px}
.skip:focus{left:1rem;top:1rem;background:var(--paper);padding:.5rem 1rem;z-index:1}
nav{background:var(--panel);border-bottom:1px solid var(--line);padding:1rem 1.25rem}
nav strong{font-size:1.15rem}
nav small{color:var(--soft)}
nav summary{cursor:pointer;padding:.35rem 0}
nav h2{font-size:.75rem;letter-spacing:.08em;text-transform:uppercase;color:var(--soft);margin:1.1rem 0 .3rem}
nav h2 a{color:inherit;text-decoration:none}
nav h2 a:hover{color:var(--accent)}
nav ul{list-style:none;margin:0;padding:0}
nav li a{display:flex;gap:.6rem;align-items:baseline;padding:.3rem 0;color:inherit;text-decoration:none}
nav li a:hover{color:var(--accent)}
nav .method{flex:none;width:3.6rem}
main{padding:1.25rem;max-width:54rem;margin:0 auto}
h1{font-size:2rem;line-height:1.2;margin:.5rem 0 1rem}
h2{font-size:1.45rem;margin:0 0 .25rem}
h3{font-size:1.15rem;margin:0}
h3 a{color:inherit;text-decoration:none}
h3 a:hover{text-decoration:underline}
h4{font-size:.8rem;letter-spacing:.06em;text-transform:uppercase;color:var(--soft);margin:1.5rem 0 .4rem}
section{margin-top:3rem;scroll-margin-top:1rem}
article{border-top:1px solid var(--line);padding:1.5rem 0;scroll-margin-top:.5rem}
article:target h3 a{color:var(--accent)}
.route{margin:.35rem 0 .75rem}
.id,.note,.place{color:var(--soft);font-size:.875rem}
.note{margin:.4rem 0}
.method{font:700 .75rem/1.4 ui-monospace,Menlo,Consolas,monospace}
.get{color:var(--get)}.post{color:var(--post)}.delete{color:var(--delete)}
.fields{margin:0;border:1px solid var(--line);border-radius:8px}
.fields>div{padding:.6rem 1rem;border-top:1px solid var(--line)}
.fields>div:first-child{border-top:0}
.fields+.fields{margin-top:.6rem}
dd{margin:0}
dd p{margin:.2rem 0}
dd .fields{margin-top:.5rem}
.rule{color:var(--soft);font-size:.875rem;overflow-wrap:anywhere}
.required{color:var(--bad);font-size:.8rem}
.reply{border:1px solid var(--line);border-radius:8px;padding:0 1rem;margin:.5rem 0}
.reply[open]{padding-bottom:.6rem}
.reply summary{cursor:pointer;padding:.5rem 0}
.status{font-weight:700}
.good{color:var(--good)}.bad{color:var(--bad)}
.table{overflow-x:auto}
table{border-collapse:collapse;width:100%;font-size:.925rem}
th,td{text-align:left;vertical-align:top;padding:.5rem .75rem .5rem 0;border-top:1px solid var(--line)}
thead th{border-top:0;color:var(--soft)}
@media (max-width:40rem){
thead{display:none}
tr{display:grid;grid-template-columns:3rem 1fr;border-top:1px solid var(--line);padding:.6rem 0}
td{border:0;padding:0}
td:last-child{grid-column:1/-1;padding-top:.2rem}
}
@media (min-width:60rem){
body{display:grid;grid-template-columns:19rem minmax(0,1fr)}
nav{position:sticky;top:0;height:100vh;overflow-y:auto;border-bottom:0;border-right:1px solid var(--line)}
main{padding:2rem 3rem;width:100%}
@supports selector(::details-content){nav summary{display:none}nav details::details-content{content-visibility:visible;height:auto}}
}
@media print{nav{display:none}body{display:block}}
`;
