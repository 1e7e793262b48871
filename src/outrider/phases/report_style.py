"""How the report looks: one style sheet, light or dark as the reader's own system is."""

STYLE = """
:root {
  color-scheme: light dark;
  --ground: #f4f5f7; --card: #ffffff; --ink: #17202a; --soft: #5a6675; --line: #e2e6eb;
  --sent: #1b8a5a; --failed: #cf3f4f; --skipped: #98a3b0; --waiting: #3a7bd5; --doubt: #d99a00;
  --good: #1b8a5a; --good-ground: #e5f5ed; --bad: #b3261e; --bad-ground: #fdeceb;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ground: #10151b; --card: #181f27; --ink: #e8edf2; --soft: #9aa7b5; --line: #2a333d;
    --sent: #3fbf86; --failed: #f0707d; --skipped: #6f7c8a; --waiting: #6aa5f5; --doubt: #f0bb3f;
    --good: #58d39b; --good-ground: #14332a; --bad: #ff8f88; --bad-ground: #3b1d1f;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0; background: var(--ground); color: var(--ink);
  font: 15px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", sans-serif;
  -webkit-print-color-adjust: exact; print-color-adjust: exact;
}
main { max-width: 960px; margin: 0 auto; padding: 48px 24px 64px; }
header { display: flex; flex-wrap: wrap; gap: 16px; align-items: flex-start; }
header > div { flex: 1 1 420px; min-width: 0; }
h1 { font-size: 28px; line-height: 1.2; margin: 4px 0 6px; overflow-wrap: anywhere; }
h2 { font-size: 16px; margin: 0 0 4px; }
p { margin: 0; }
.over { font-size: 12px; font-weight: 600; letter-spacing: .09em; text-transform: uppercase; }
.over, .note, dt { color: var(--soft); }
.note { font-size: 13px; }
.badge {
  padding: 6px 14px; border-radius: 99px; font-size: 13px; font-weight: 600; white-space: nowrap;
}
.holds { color: var(--good); background: var(--good-ground); }
.broken { color: var(--bad); background: var(--bad-ground); }
.tiles { display: grid; grid-template-columns: repeat(6, 1fr); gap: 12px; margin: 28px 0 16px; }
.tile, section { background: var(--card); border: 1px solid var(--line); border-radius: 12px; }
.tile { padding: 14px 16px; min-width: 0; }
.tile b { display: block; font-size: 24px; line-height: 1.25; overflow-wrap: anywhere; }
.tile b, td, .count { font-variant-numeric: tabular-nums; }
.tile.none b { color: var(--soft); font-weight: 500; }
.tile span { font-size: 13px; color: var(--soft); }
section { padding: 22px 24px 24px; margin: 16px 0; break-inside: avoid; }
svg { display: block; width: 100%; border-radius: 5px; overflow: hidden; }
.whole { height: 34px; margin: 16px 0 12px; border-radius: 7px; }
.bar { height: 14px; }
.track { fill: var(--line); }
.sent { fill: var(--sent); } .failed { fill: var(--failed); } .skipped { fill: var(--skipped); }
.waiting { fill: var(--waiting); } .doubt { fill: var(--doubt); }
.legend { display: flex; flex-wrap: wrap; gap: 4px 20px; list-style: none; padding: 0; margin: 0; }
.legend { font-size: 13px; }
.legend svg { display: inline-block; width: 10px; height: 10px; border-radius: 3px; }
.legend svg { margin-right: 7px; }
.identity { margin-top: 16px; padding-top: 16px; border-top: 1px solid var(--line); }
.rows { display: grid; gap: 14px; margin-top: 16px; }
.row { display: grid; grid-template-columns: 210px 1fr 72px; gap: 6px 16px; align-items: center; }
.tall .row { grid-template-columns: 1fr auto; }
.tall .row svg { grid-column: 1 / -1; grid-row: 2; }
.row > * { min-width: 0; overflow-wrap: anywhere; }
.row .note { display: block; }
.count { text-align: right; font-size: 13px; }
.criteria { list-style: none; padding: 0; margin: 16px 0 0; display: grid; gap: 14px; }
.criteria li { display: grid; grid-template-columns: 24px 1fr; gap: 12px; }
.criteria p { overflow-wrap: anywhere; }
.mark {
  width: 24px; height: 24px; border-radius: 50%; display: grid; place-items: center;
  font-size: 14px; font-weight: 700;
}
dl { display: grid; grid-template-columns: max-content 1fr; gap: 4px 16px; margin: 20px 0 0; }
dl { padding-top: 16px; border-top: 1px solid var(--line); font-size: 13px; }
dd { margin: 0; overflow-wrap: anywhere; }
code { font: 12px/1.5 ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; }
footer { margin-top: 20px; font-size: 13px; color: var(--soft); }
@media (max-width: 720px) {
  main { padding: 28px 16px 40px; }
  .tiles { grid-template-columns: repeat(3, 1fr); }
  .row { grid-template-columns: 1fr auto; }
  .row svg { grid-column: 1 / -1; grid-row: 2; }
}
"""
