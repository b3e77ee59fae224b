'use strict';
// Shows updates of the server, shrinks the bars, writes times as ages, and copies command lines. It
// sends nothing but the request for updates.
(() => {
  const body = document.body;
  const byId = (id) => document.getElementById(id);
  let offset = Number(body.dataset.now) - Date.now(); // the server's clock minus this one
  const now = () => Date.now() + offset;

  const span = (ms) => {
    const s = Math.max(0, Math.floor(ms / 1000));
    if (s < 60) return s + ' s';
    if (s < 3600) return Math.floor(s / 60) + ' min' + (s < 600 && s % 60 ? ' ' + (s % 60) + ' s' : '');
    if (s < 172800) return Math.floor(s / 3600) + ' h ' + Math.floor((s % 3600) / 60) + ' min';
    return Math.floor(s / 86400) + ' days';
  };

  const tick = () => {
    const t = now();
    for (const bar of document.querySelectorAll('progress[data-end]')) {
      const left = Math.max(0, Math.min(Number(bar.dataset.ttl), Number(bar.dataset.end) - t));
      bar.value = left;
      bar.classList.toggle('low', left < bar.max / 4);
      const text = bar.parentNode.querySelector('.left');
      const words = left > 0 ? (left < 10000 ? (left / 1000).toFixed(1) + ' s' : span(left)) : 'over';
      if (text && text.textContent !== words) text.textContent = words;
    }
    for (const at of document.querySelectorAll('time[datetime]')) {
      const ms = Date.parse(at.dateTime);
      if (!at.title) at.title = new Date(ms).toLocaleString();
      const words = ms <= t ? span(t - ms) + ' ago' : 'in ' + span(ms - t);
      if (at.textContent !== words) at.textContent = words;
    }
  };

  const parse = (html) => {
    const t = document.createElement('template');
    t.innerHTML = html;
    return t.content;
  };

  // An update may replace the element that has the focus: the new one with the same id gets it.
  const keepFocus = (change) => {
    const id = document.activeElement && document.activeElement.id;
    change();
    if (id && (!document.activeElement || document.activeElement.id !== id)) {
      const again = byId(id);
      if (again) again.focus({ preventScroll: true });
    }
  };

  let first = true; // the first update repeats what the page has
  const apply = (update) => keepFocus(() => {
    offset = update.now - Date.now();
    for (const [id, html] of Object.entries(update.set || {})) {
      const target = byId(id);
      if (target) target.replaceChildren(parse(html));
    }
    const rows = byId('rows');
    if (!rows) return;
    for (const [id, html] of Object.entries(update.rows || {})) {
      const fresh = parse(html).firstElementChild;
      const old = byId(id);
      if (old) {
        if (!first) fresh.classList.add('changed');
        old.replaceWith(fresh);
      } else {
        rows.append(fresh);
      }
    }
    first = false;
    if (update.order) {
      const keep = new Set(update.order);
      for (const row of [...rows.children]) if (!keep.has(row.id)) row.remove();
      update.order.forEach((id, i) => {
        const row = byId(id);
        if (row && rows.children[i] !== row) rows.insertBefore(row, rows.children[i]);
      });
    }
  });

  const connection = byId('connection'), live = byId('live');
  const say = (state, words) => {
    live.className = 'live ' + state;
    if (connection.textContent !== words) connection.textContent = words;
  };

  // The server sends at least one update in 15 seconds.
  let source, retry, wait = 500, heard = Date.now();
  const connect = () => {
    clearTimeout(retry);
    if (source) source.close();
    source = new EventSource(body.dataset.events);
    heard = Date.now();
    source.addEventListener('update', (e) => {
      wait = 500;
      heard = Date.now();
      apply(JSON.parse(e.data));
      tick();
      say('on', 'live');
    });
    source.onerror = () => {
      source.close();
      say('off', 'not connected: the page shows an old state');
      retry = setTimeout(connect, wait);
      wait = Math.min(wait * 2, 15000);
    };
  };
  if (body.dataset.events) {
    connect();
    setInterval(() => {
      if (!document.hidden && Date.now() - heard > 40000) source.onerror();
    }, 5000);
    // A hidden page needs no updates. A browser allows six connections to one server.
    document.addEventListener('visibilitychange', () => {
      clearTimeout(retry);
      if (document.hidden) {
        source.close();
        say('', 'paused');
      } else {
        connect();
      }
    });
  }

  document.addEventListener('click', async (e) => {
    const button = e.target.closest && e.target.closest('button[data-copy]');
    if (!button) return;
    const code = byId(button.dataset.copy);
    let words = 'Copied.';
    try {
      await navigator.clipboard.writeText(code.textContent);
    } catch {
      getSelection().selectAllChildren(code); // the browser allows no copy here
      words = 'Selected: copy it with the keyboard.';
    }
    byId('copied').textContent = words;
    setTimeout(() => { byId('copied').textContent = ''; }, 2500);
  });

  document.addEventListener('keydown', (e) => {
    const filter = byId('q');
    if (e.key === '/' && filter && !e.ctrlKey && !e.metaKey && !e.altKey && !/^(INPUT|SELECT|TEXTAREA)$/.test(e.target.tagName)) {
      e.preventDefault();
      filter.focus();
      filter.select();
    }
  });
  const state = byId('state');
  if (state) state.addEventListener('change', () => state.form.requestSubmit());

  tick();
  setInterval(tick, 250);
})();
