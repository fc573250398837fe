import { createHash } from 'node:crypto';

/** What the front page tells. All of it is public: it stands before authentication, as `/readyz` does. */
export interface FrontFacts {
  readonly name: string;
  readonly description: string;
  /** Where clients point their base URL: ends in `/v1`. */
  readonly baseUrl: string;
  readonly needsKey: boolean;
  readonly ready: boolean;
  readonly policy: string;
  readonly models: readonly string[];
  readonly notes: readonly string[];
}

const question = 'What is 17 * 23?';

export function curlExample({ baseUrl, needsKey }: Pick<FrontFacts, 'baseUrl' | 'needsKey'>): string {
  const body = JSON.stringify({ model: 'orchestra', messages: [{ role: 'user', content: question }] });
  const key = needsKey ? [`-H "authorization: Bearer $ORCHESTRA_API_KEY"`] : [];
  return [`curl ${baseUrl}/chat/completions`, `-H 'content-type: application/json'`, ...key, `-d '${body}'`].join(
    ' \\\n  ',
  );
}

const pythonExample = ({ baseUrl, needsKey }: FrontFacts): string => `from openai import OpenAI

client = OpenAI(base_url="${baseUrl}", api_key="${needsKey ? 'YOUR KEY' : 'none'}")
answer = client.chat.completions.create(
    model="orchestra",
    messages=[{"role": "user", "content": "${question}"}],
    extra_body={"preferences": {"optimize": "cheap", "max_cost_usd": 0.02}},
)
print(answer.choices[0].message.content, answer.usage)`;

const style = `
:root { color-scheme: light dark; --ink: #1c2024; --soft: #60646c; --line: #d9d9e0; --ground: #fcfcfd; --panel: #f2f2f5;
  --link: #0b62b8; --good: #18794e; --bad: #b4232a }
@media (prefers-color-scheme: dark) { :root { --ink: #edeef0; --soft: #b0b4ba; --line: #363a3f; --ground: #111113;
  --panel: #1b1c1f; --link: #70b8ff; --good: #4cc38a; --bad: #ff9592 } }
body { font: 1rem/1.55 system-ui, sans-serif; color: var(--ink); background: var(--ground); max-width: 48rem;
  margin: 0 auto; padding: 3.5rem 1.25rem }
h1 { font-size: 2rem; line-height: 1.2; margin: 0 }
h2 { font-size: 1rem; margin: 2.25rem 0 .6rem }
p { margin: .6rem 0 }
a { color: var(--link) }
nav { display: flex; flex-wrap: wrap; gap: .25rem 1.25rem; margin-top: 1rem }
pre { margin: 0; padding: .9rem 1rem; overflow-x: auto; background: var(--panel); border: 1px solid var(--line);
  border-radius: .5rem }
code { font: .875rem/1.55 ui-monospace, monospace }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .35rem 1.25rem; margin: 1.75rem 0 0 }
dt { color: var(--soft) }
dd { margin: 0; display: flex; flex-wrap: wrap; gap: .1rem .9rem }
ul { margin: 0; padding-left: 1.2rem; color: var(--soft) }
.good { color: var(--good) }
.bad { color: var(--bad) }
`;

/** Nothing is loaded, run, framed or sent: the page's own style alone may apply. */
export const frontPolicy = [
  "default-src 'none'",
  `style-src 'sha256-${createHash('sha256').update(style).digest('base64')}'`,
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ');

export function frontPage(facts: FrontFacts): string {
  const { name, description, ready, policy, models, notes } = facts;
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escaped(name)}</title>
<style>${style}</style>
</head>
<body>
<h1>${escaped(name)}</h1>
<p>${prose(description)}</p>
<nav>
${links(facts)}
</nav>
<dl>
<dt>State</dt><dd class="${ready ? 'good' : 'bad'}">${ready ? 'ready' : 'not ready'}</dd>
<dt>Decides</dt><dd>${escaped(policy)}</dd>
<dt>Models</dt><dd>${models.map((model) => `<code>${escaped(model)}</code>`).join('')}</dd>
</dl>
<h2>From a shell</h2>
<pre><code>${escaped(curlExample(facts))}</code></pre>
<h2>From Python</h2>
<pre><code>${escaped(pythonExample(facts))}</code></pre>
${notes.length === 0 ? '' : `<h2>What was found at the start</h2>\n<ul>\n${notes.map((note) => `<li>${prose(note)}</li>\n`).join('')}</ul>\n`}</body>
</html>
`;
}

/** A browser sends no key, so what wants one is not offered to it. */
function links({ needsKey }: FrontFacts): string {
  const open = { '/docs': 'API reference', '/readyz': 'Readiness' };
  const guarded = { '/v1/models': 'Models', '/v1/orchestra/slots': 'What it can choose' };
  return Object.entries(needsKey ? open : { ...open, ...guarded })
    .map(([path, label]) => `<a href="${path}">${label}</a>`)
    .join('\n');
}

const entities: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' };

const escaped = (text: string): string => text.replace(/[&<>"]/g, (sign) => entities[sign] ?? '');

/** Our sentences name things in backticks, as everywhere else. */
const prose = (text: string): string => escaped(text).replace(/`([^`]+)`/g, '<code>$1</code>');
