'use strict';
// Without this file the page works, and comes again every 10 seconds. With it, what has changed is put in its place:
// what stays the same element keeps its focus, what was typed into it, and whether it is open.
const $ = (id) => document.getElementById(id);
let main = document.querySelector('main'), seen = Date.now(), lost = false, busy = false, again = false;
function alike(a, b) {
  return a.nodeType === b.nodeType && a.nodeName === b.nodeName && (a.id || '') === (b.id || '');
}
function attributes(from, to) {
  for (const {name} of [...from.attributes])
    if (!to.hasAttribute(name) && !(name === 'open' && from.nodeName === 'DETAILS')) from.removeAttribute(name);
  for (const {name, value} of to.attributes)
    if (from.getAttribute(name) !== value) from.setAttribute(name, value);
}
function morph(from, to) {
  if (from.nodeType !== 1) return void (from.data !== to.data && (from.data = to.data));
  attributes(from, to);
  let at = from.firstChild;
  for (const wanted of [...to.childNodes]) {
    let found = at;
    if (wanted.id) while (found && found.id !== wanted.id) found = found.nextSibling;
    if (!found || !alike(found, wanted)) { from.insertBefore(wanted, at); continue; }
    while (at !== found) { const gone = at; at = at.nextSibling; gone.remove(); }
    at = found.nextSibling;
    morph(found, wanted);
  }
  while (at) { const gone = at; at = at.nextSibling; gone.remove(); }
}
function tell(id, text) { if (text && $(id).textContent !== text) $(id).textContent = text; }
async function look() {
  if (busy) { again = true; return; }
  busy = true;
  try {
    const answer = await fetch(location.href, {headers: {Accept: 'text/html'}});
    if (answer.status === 401) { end('The server was started anew. Open the link of: harness serve --link'); return; }
    if (!answer.ok) return;
    const page = new DOMParser().parseFromString(await answer.text(), 'text/html');
    const next = page.querySelector('main');
    document.title = page.title;
    morph(main, next);
    tell('said', main.dataset.said);
    tell('asks', main.dataset.asks);
    seen = Date.now();
  } catch { lost = true; } finally { busy = false; if (again) { again = false; look(); } }
}
function end(text) { lost = true; $('lost').textContent = text; stream.close(); clearInterval(timer); }
let stream = listen();
function listen() {
  const opened = new EventSource('/events?since=' + encodeURIComponent(main.dataset.revision));
  opened.addEventListener('changed', look);
  opened.onopen = () => { if (lost) look(); lost = false; $('lost').textContent = ''; };
  opened.onerror = () => { lost = true; };
  return opened;
}
const timer = setInterval(() => {
  if (!lost) return;
  $('lost').textContent = `No connection; this is how it was ${Math.round((Date.now() - seen) / 1000)} s ago.`;
  if (stream.readyState === 2) { look(); stream = listen(); }
}, 5000);
