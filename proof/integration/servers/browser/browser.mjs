// Does in Chromium what a Go test asks for: one JSON object on a line of stdin for each request, and one
// on stdout for each answer.
import { createInterface } from 'node:readline';
import { createRequire } from 'node:module';
import { readFileSync } from 'node:fs';

const [modules, program] = process.argv.slice(2);
const require = createRequire(modules + '/');
const { chromium } = require('playwright-core');
const axe = readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');
const browser = await chromium.launch({ executablePath: program, args: ['--no-sandbox', '--disable-gpu'] });
const pages = new Map();

const does = {
  async open({ page, width, height, scheme }) {
    const context = await browser.newContext({ viewport: { width, height }, colorScheme: scheme, permissions: ['clipboard-read', 'clipboard-write'] });
    const tab = await context.newPage();
    const seen = { tab, context, problems: [] };
    await tab.exposeBinding('violated', (_, text) => { seen.problems.push(text); });
    await tab.addInitScript(() => document.addEventListener('securitypolicyviolation', (e) => window.violated('policy: ' + e.violatedDirective + ' ' + e.blockedURI)));
    tab.on('pageerror', (e) => seen.problems.push('error: ' + e));
    tab.on('dialog', (d) => { seen.problems.push('dialog: ' + d.message()); d.dismiss(); });
    tab.on('console', (m) => { if (/Content Security Policy|Refused to/.test(m.text())) seen.problems.push('console: ' + m.text()); });
    tab.on('request', (r) => { if (!/^https?:\/\/127\.0\.0\.1[:/]/.test(r.url())) seen.problems.push('request: ' + r.url()); });
    pages.set(page, seen);
  },
  async goto({ tab, url }) { await tab.goto(url, { waitUntil: 'domcontentloaded' }); },
  async reload({ tab }) { await tab.reload({ waitUntil: 'domcontentloaded' }); },
  async wait({ tab, expression }) { // without eval in the page, which its policy forbids
    const until = Date.now() + 20000;
    for (let problem = ''; ; ) {
      try {
        if (await tab.evaluate(expression)) return;
      } catch (e) {
        problem = String(e); // the page may just be replaced by another one
      }
      if (Date.now() > until) throw new Error('not within 20 s: ' + problem + '\n' + await tab.evaluate('document.body.innerText'));
      await new Promise((then) => setTimeout(then, 30));
    }
  },
  async eval({ tab, expression }) { return await tab.evaluate(expression); },
  async press({ tab, key }) { await tab.keyboard.press(key); },
  async type({ tab, text }) { await tab.keyboard.type(text); },
  async click({ tab, selector }) { await tab.click(selector, { timeout: 10000 }); },
  async shot({ tab, path }) { await tab.screenshot({ path, fullPage: true }); },
  async axe({ tab }) {
    await tab.evaluate(axe);
    const result = await tab.evaluate(() => window.axe.run(document));
    return result.violations.filter((v) => ['serious', 'critical', 'moderate'].includes(v.impact))
      .flatMap((v) => v.nodes.map((n) => v.impact + ' ' + v.id + ': ' + n.target.join(' ') + ': ' + (n.any[0] || n.all[0] || n.none[0] || {}).message));
  },
  async problems({ seen }) { return seen.problems; },
  async close({ page, seen }) { pages.delete(page); await seen.context.close(); },
};

for await (const line of createInterface({ input: process.stdin })) {
  const request = JSON.parse(line);
  let answer;
  try {
    const seen = pages.get(request.page);
    answer = { result: (await does[request.do]({ ...request, seen, tab: seen && seen.tab })) ?? null };
  } catch (e) {
    answer = { error: String(e.stack || e) };
  }
  process.stdout.write(JSON.stringify(answer) + '\n');
}
await browser.close();
