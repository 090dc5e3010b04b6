'use strict';
// Draws the report of the data in the page. No library, no network. Text from the recording reaches the page only as text nodes
// and canvas text, never as markup.

const D = JSON.parse(document.getElementById('data').textContent);
const FN = D.functions, FOLDED = -1, ALL = -2;

// ---------------------------------------------------------------- small helpers

/** Makes an element: attributes, listeners (`onclick`), then children. */
function el(tag, attributes, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith('on')) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? '' : value);
  }
  node.append(...children.flat(Infinity).filter(child => child !== null && child !== undefined));
  return node;
}

const swatch = (color, cls) => { const i = el('i', { class: cls }); i.style.background = color; return i; };

function digits(value) {
  return value < 9.995 ? value.toFixed(2) : value < 99.95 ? value.toFixed(1) : value.toFixed(0);
}

/** A duration in microseconds, for a reader. */
function duration(us) {
  if (us <= 0) return '0';
  if (us < 1) return Math.round(us * 1e3) + ' ns';
  if (us < 1e3) return digits(us) + ' µs';
  if (us < 1e6) return digits(us / 1e3) + ' ms';
  if (us < 120e6) return digits(us / 1e6) + ' s';
  const seconds = Math.floor(us / 1e6);
  return seconds < 3600
    ? `${Math.floor(seconds / 60)} min ${String(seconds % 60).padStart(2, '0')} s`
    : `${Math.floor(seconds / 3600)} h ${String(Math.floor(seconds / 60) % 60).padStart(2, '0')} min`;
}

function bytes(value) {
  let unit = 0;
  while (value >= 1023.95 && unit < 6) { value /= 1024; unit++; }
  return unit ? `${digits(value)} ${['B', 'KB', 'MB', 'GB', 'TB', 'PB', 'EB'][unit]}` : `${value} B`;
}

const count = value => Math.round(value).toString().replace(/\B(?=(\d{3})+$)/g, ',');
const plural = (value, noun) => `${count(value)} ${noun}${value === 1 ? '' : 's'}`;
const percent = share => { const p = share * 100; return (p > 0 && p < 0.1 ? p.toFixed(2) : p.toFixed(1)) + ' %'; };
const rate = perSecond => (perSecond >= 1000 ? count(perSecond) : digits(perSecond)) + ' /s';

/** Half the 95 % interval of a share that was estimated from `n` samples (Wilson), the larger side. */
function margin(share, n) {
  if (n <= 0) return 1;
  const z2 = 3.841458820694124;
  const centre = (share + z2 / (2 * n)) / (1 + z2 / n);
  const half = Math.sqrt(z2 * (share * (1 - share) / n + z2 / (4 * n * n))) / (1 + z2 / n);
  return Math.max(Math.min(1, centre + half) - share, share - Math.max(0, centre - half));
}

const fileName = path => path.split(/[\\/]/).pop();
const place = (file, line) => file ? `${fileName(D.files[file - 1])}:${line}` : '';

// ---------------------------------------------------------------- colours

// Hue, saturation, lightness of each kind of frame, for the light page; the dark page is a little deeper.
const KIND_COLORS = [
  [28, 88, 64], [150, 38, 62], [92, 45, 60], [200, 22, 70], [211, 58, 68],
  [265, 45, 72], [2, 70, 66], [48, 80, 60], [30, 14, 64], [220, 8, 72],
];
const CLASS_COLORS = {
  'running': '#3f9b5f', 'lock': '#d8504d', 'sleep': '#8c7ae6', 'I/O': '#3f8fd6', 'pool idle': '#b6bfca',
  'GC': '#e08a2e', 'task': '#c95fb0', 'other': '#7d8896', 'event': '#4fb3a9', 'runtime': '#a0714f',
  'no processor': '#d9b93b', 'throttled': '#8f2d3f',
};
const TYPE_COLORS = ['#d8504d', '#e08a2e', '#c9a227', '#3f9b5f', '#3f8fd6', '#8c7ae6', '#c95fb0', '#7d8896'];
const GENERATION_COLORS = ['#3f9b5f', '#e0a32e', '#d8504d'];
const HEAP_COLORS = ['#8fd0a6', '#e0c26a', '#d98a6a', '#6aa5dc', '#a99be8'];

const isDark = () => document.documentElement.dataset.theme === 'dark';
const cssColor = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function kindColor(kind, seed) {
  const [h, s, l] = KIND_COLORS[kind];
  const jitter = ((seed * 2654435761) >>> 0) / 4294967296 - 0.5;
  return isDark()
    ? `hsl(${h + jitter * 12} ${s * 0.62}% ${l * 0.66 + jitter * 7}%)`
    : `hsl(${h + jitter * 12} ${s}% ${l + 8 + jitter * 8}%)`;
}

// Exceptions and allocations have types for classes, and one row of a timeline for all of them.
const typed = series => series.id === 'exceptions' || series.id === 'allocations';

// Shares of these are no estimates.
const exact = series => series.id === 'exceptions' || series.calls;

const classColor = (series, index) =>
  typed(series) ? TYPE_COLORS[index % TYPE_COLORS.length] : CLASS_COLORS[series.classes[index]] || '#7d8896';

// ---------------------------------------------------------------- unpacking the data

for (const series of D.series) {
  const { up, function: fn, file, line } = series.nodes;
  const n = up.length;
  // Node 0 of a tree here is the whole; nodes of the data follow.
  const tree = series.tree = {
    size: n + 1, parent: new Int32Array(n + 1), fn: new Int32Array(n + 1), file: new Int32Array(n + 1), line: new Int32Array(n + 1),
  };
  tree.parent[0] = -1;
  tree.fn[0] = ALL;
  for (let i = 0; i < n; i++) {
    tree.parent[i + 1] = up[i] ? i + 1 - up[i] : 0;
    tree.fn[i + 1] = fn[i];
    tree.file[i + 1] = file[i];
    tree.line[i + 1] = line[i];
  }
  const cells = series.cells;
  for (let i = 0, node = 0; i < cells.node.length; i++) cells.node[i] = node += cells.node[i];
  series.byThread = new Map();
  for (let i = 0; i < cells.node.length; i++) {
    const thread = cells.thread[i];
    let sums = series.byThread.get(thread);
    if (!sums) series.byThread.set(thread, sums = { weight: 0, classes: new Array(series.classes.length).fill(0) });
    sums.weight += cells.weight[i];
    sums.classes[cells.class[i]] += cells.weight[i];
  }
}

// ---------------------------------------------------------------- state

// A recording of heap snapshots alone begins with them.
const firstTab = D.series.length || !D.documents.length ? 'flame' : D.documents[0][0];
const view = {
  tab: firstTab, series: D.series.length ? D.series[0].id : '', thread: 'all', callers: false, search: '', off: {}, zoom: 0, focus: 0,
  sort: 'own', rows: 100,
};
for (const series of D.series) view.off[series.id] = new Set(series.shown.flatMap((shown, i) => shown ? [] : [i]));

const current = () => D.series.find(series => series.id === view.series);
const amount = (series, value) => series.unit === 'count' ? plural(value, 'exception') : series.unit === 'bytes' ? bytes(value) : duration(value);

function readHash() {
  const given = new URLSearchParams(location.hash.slice(1));
  if (given.has('tab') && TABS.some(tab => tab.id === given.get('tab'))) view.tab = given.get('tab');
  if (D.series.some(series => series.id === given.get('series'))) view.series = given.get('series');
  if (given.has('thread') && D.threads[given.get('thread')]) view.thread = given.get('thread');
  view.callers = given.get('callers') === '1';
  view.search = given.get('search') || '';
}

function writeHash() {
  const given = new URLSearchParams();
  if (view.tab !== firstTab) given.set('tab', view.tab);
  if (D.series.length && view.series !== D.series[0].id) given.set('series', view.series);
  if (view.thread !== 'all') given.set('thread', view.thread);
  if (view.callers) given.set('callers', '1');
  if (view.search) given.set('search', view.search);
  const hash = given.toString();
  history.replaceState(null, '', hash ? '#' + hash : location.pathname + location.search);
}

// ---------------------------------------------------------------- trees

/** Sums of the cells that the thread and the classes let through, by node of the tree of the data. */
function ownSums(series) {
  const own = new Float64Array(series.tree.size), samples = new Float64Array(series.tree.size);
  const off = view.off[series.id], cells = series.cells, thread = view.thread === 'all' ? null : Number(view.thread);
  for (let i = 0; i < cells.node.length; i++) {
    if ((thread !== null && cells.thread[i] !== thread) || off.has(cells.class[i])) continue;
    own[cells.node[i] + 1] += cells.weight[i];
    samples[cells.node[i] + 1] += cells.samples[i];
  }
  return { own, samples };
}

/** Adds totals and children, heaviest first, to a tree with own sums. Parents must stand before their children. */
function complete(tree) {
  const n = tree.size;
  tree.total = Float64Array.from(tree.own);
  tree.totalSamples = Float64Array.from(tree.samples);
  const counts = new Int32Array(n + 1);
  for (let i = n - 1; i > 0; i--) {
    tree.total[tree.parent[i]] += tree.total[i];
    tree.totalSamples[tree.parent[i]] += tree.totalSamples[i];
    if (tree.total[i] > 0) counts[tree.parent[i] + 1]++;
  }
  for (let i = 0; i < n; i++) counts[i + 1] += counts[i];
  tree.start = counts.slice();
  tree.children = new Int32Array(counts[n]);
  const next = counts.slice();
  for (let i = 1; i < n; i++) if (tree.total[i] > 0) tree.children[next[tree.parent[i]]++] = i;
  for (let i = 0; i < n; i++) {
    if (tree.start[i + 1] - tree.start[i] > 1)
      tree.children.subarray(tree.start[i], tree.start[i + 1]).sort((a, b) => tree.total[b] - tree.total[a] || a - b);
  }
  tree.depth = new Int32Array(n);
  tree.deepest = 0;
  for (let i = 1; i < n; i++) {
    tree.depth[i] = tree.depth[tree.parent[i]] + 1;
    if (tree.total[i] > 0 && tree.depth[i] > tree.deepest) tree.deepest = tree.depth[i];
  }
  return tree;
}

const MOST_CALLER_NODES = 400000;

/** From the leaves to the roots: who called it. */
function invert(tree) {
  const leaves = [];
  for (let i = 1; i < tree.size; i++) if (tree.own[i] > 0) leaves.push(i);
  leaves.sort((a, b) => tree.own[b] - tree.own[a]);
  const parent = [-1], fn = [ALL], file = [0], line = [0], own = [0], samples = [0], ids = new Map();
  const node = (above, of) => {
    const key = above * (FN.name.length + 2) + tree.fn[of] + 2;
    let id = ids.get(key);
    if (id === undefined) {
      ids.set(key, id = parent.length);
      parent.push(above); fn.push(tree.fn[of]); file.push(tree.file[of]); line.push(tree.line[of]); own.push(0); samples.push(0);
    }
    return id;
  };
  let folded = 0;
  for (const leaf of leaves) {
    let at = 0;
    if (parent.length < MOST_CALLER_NODES) {
      for (let i = leaf; i > 0; i = tree.parent[i]) at = node(at, i);
    } else {
      // Beyond the limit the lightest stacks show no callers.
      at = node(0, leaf);
      folded++;
    }
    own[at] += tree.own[leaf];
    samples[at] += tree.samples[leaf];
  }
  return complete({
    size: parent.length, parent: Int32Array.from(parent), fn: Int32Array.from(fn), file: Int32Array.from(file), line: Int32Array.from(line),
    own: Float64Array.from(own), samples: Float64Array.from(samples), inverted: true, folded,
  });
}

let cache = { key: null };

/** Trees of what is chosen; made anew when the choice changes. */
function trees() {
  const series = current();
  const key = [view.series, view.thread, [...view.off[view.series]].sort().join('.')].join('|');
  if (cache.key !== key) cache = { key, down: complete({ ...series.tree, ...ownSums(series) }), up: null, functions: null };
  if (view.callers && !cache.up) cache.up = invert(cache.down);
  return cache;
}

const shownTree = () => { const both = trees(); return view.callers ? both.up : both.down; };

/** How many equal samples say as much as those that are shown. */
function effective(tree) {
  const series = current();
  return series.samples ? tree.totalSamples[0] * series.effective / series.samples : 0;
}

/** Own and total sums of each function; a stack counts once. */
function functionSums() {
  const both = trees();
  if (both.functions) return both.functions;
  const tree = both.down, n = FN.name.length;
  const own = new Float64Array(n), total = new Float64Array(n), samples = new Float64Array(n), onPath = new Uint32Array(n);
  const file = new Int32Array(n), line = new Int32Array(n), best = new Float64Array(n).fill(-1);
  const stack = [0];
  while (stack.length) {
    const at = stack.pop();
    if (at < 0) { onPath[tree.fn[~at]]--; continue; }
    const fn = tree.fn[at];
    if (fn >= 0) {
      own[fn] += tree.own[at];
      samples[fn] += tree.samples[at];
      if (tree.file[at] && tree.own[at] > best[fn]) { best[fn] = tree.own[at]; file[fn] = tree.file[at]; line[fn] = tree.line[at]; }
      if (onPath[fn]++ === 0) total[fn] += tree.total[at];
      stack.push(~at);
    }
    for (let c = tree.start[at]; c < tree.start[at + 1]; c++) stack.push(tree.children[c]);
  }
  const rows = [];
  for (let fn = 0; fn < n; fn++) if (total[fn] > 0) rows.push({ fn, own: own[fn], total: total[fn], samples: samples[fn], file: file[fn], line: line[fn] });
  return both.functions = rows;
}

// ---------------------------------------------------------------- search

let hits = null, hitsOf = '';

/** Which functions the search finds, or null without a search. `/…/` is a regular expression. */
function searchHits() {
  if (!view.search) return null;
  if (hits && hitsOf === view.search) return hits;
  const expression = /^\/(.+)\/$/.exec(view.search);
  let test;
  try {
    const regex = expression && new RegExp(expression[1], 'i');
    const text = view.search.toLowerCase();
    test = regex ? name => regex.test(name) : name => name.toLowerCase().includes(text);
  } catch { test = () => false; }
  hits = Uint8Array.from(FN.name, name => test(name) ? 1 : 0);
  hitsOf = view.search;
  return hits;
}

/** Share of the stacks under a node that have a hit. */
function hitShare(tree, from) {
  const found = searchHits();
  if (!found || !tree.total[from]) return null;
  let sum = 0;
  for (let at = from; at >= 0; at = tree.parent[at]) if (tree.fn[at] >= 0 && found[tree.fn[at]]) return 1;
  const stack = [from];
  while (stack.length) {
    const at = stack.pop();
    if (tree.fn[at] >= 0 && found[tree.fn[at]]) { sum += tree.total[at]; continue; }
    for (let c = tree.start[at]; c < tree.start[at + 1]; c++) stack.push(tree.children[c]);
  }
  return sum / tree.total[from];
}

// ---------------------------------------------------------------- canvas

/** Fits a canvas to its place at the resolution of the screen. */
function fit(canvas, width, height) {
  const ratio = window.devicePixelRatio || 1;
  canvas.width = Math.max(1, Math.round(width * ratio));
  canvas.height = Math.max(1, Math.round(height * ratio));
  canvas.style.height = height + 'px';
  const g = canvas.getContext('2d');
  g.setTransform(ratio, 0, 0, ratio, 0, 0);
  g.clearRect(0, 0, width, height);
  return g;
}

/** As much of a text as fits; dots stand for the rest. */
function fitText(g, text, room) {
  if (room < 18) return '';
  if (g.measureText(text).width <= room) return text;
  let low = 0, high = text.length;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (g.measureText(text.slice(0, middle) + '…').width <= room) low = middle; else high = middle - 1;
  }
  return low > 1 ? text.slice(0, low) + '…' : '';
}

/** A step for about `wanted` marks on an axis of this length. */
function niceStep(length, wanted) {
  const raw = length / wanted, power = 10 ** Math.floor(Math.log10(raw));
  return [1, 2, 5, 10].map(f => f * power).find(step => step >= raw);
}

const tip = el('div', { class: 'tip', hidden: true, role: 'presentation' });

function showTip(event, ...content) {
  tip.replaceChildren(...content);
  tip.hidden = false;
  const { width, height } = tip.getBoundingClientRect();
  const left = event.clientX + 14 + width > innerWidth ? Math.max(6, event.clientX - width - 10) : event.clientX + 14;
  const top = event.clientY + 16 + height > innerHeight ? Math.max(6, event.clientY - height - 10) : event.clientY + 16;
  tip.style.left = left + 'px';
  tip.style.top = top + 'px';
}

const hideTip = () => { tip.hidden = true; };
const tipTable = rows => el('table', {}, rows.map(([name, value]) => el('tr', {}, el('td', {}, name), el('td', {}, value))));

// ---------------------------------------------------------------- flame graph

const ROW = 19;
let flame = null;

function nodeName(tree, node, short) {
  const fn = tree.fn[node];
  if (fn === ALL) return view.callers ? 'all samples, by the method they were in' : 'all';
  if (fn === FOLDED) return '(light calls, folded)';
  return short ? FN.short[fn] : FN.name[fn];
}

function nodeTip(tree, node) {
  const series = current(), fn = tree.fn[node], n = effective(tree), all = tree.total[0] || 1;
  const zoomed = tree.total[view.zoom] || 1, share = tree.total[node] / all, own = tree.own[node] / all;
  const where = [];
  if (fn >= 0) {
    where.push(D.kinds[FN.kind[fn]]);
    if (FN.module[fn]) where.push(D.modules[FN.module[fn] - 1]);
    if (FN.machine[fn]) where.push(FN.machine[fn]);
    if (tree.file[node]) where.push(`${D.files[tree.file[node] - 1]}:${tree.line[node]}`);
  }
  const error = share => exact(series) ? '' : ` ± ${(margin(share, n) * 100).toFixed(1)}`;
  const rows = [['total', `${percent(share)}${error(share)}   ${amount(series, tree.total[node])}`]];
  if (!tree.inverted) rows.push(['self', `${percent(own)}${error(own)}   ${amount(series, tree.own[node])}`]);
  if (!series.calls) rows.push(['samples', count(tree.totalSamples[node])]);
  else if (!tree.inverted) rows.push(['calls', count(tree.samples[node])]);
  if (view.zoom > 0) rows.push(['of the zoomed frame', percent(tree.total[node] / zoomed)]);
  if (tree.parent[node] > 0) rows.push([tree.inverted ? 'of the callee' : 'of the caller', percent(tree.total[node] / tree.total[tree.parent[node]])]);
  return [
    el('div', { class: 'name' }, nodeName(tree, node, false)),
    where.length ? el('div', { class: 'where' }, where.join(' · ')) : null,
    tipTable(rows),
  ].filter(part => part);
}

/** The flame graph with its way of frames above and its legend below. */
function flameView() {
  const scroller = el('div', { class: 'flame' });
  const spacer = el('div');
  const canvas = el('canvas', {
    tabindex: 0, role: 'application',
    'aria-label': 'Flame graph. Arrow keys move, Enter zooms in, Backspace zooms out, Escape shows all.',
  });
  const crumbs = el('nav', { class: 'crumbs', 'aria-label': 'Zoomed to' });
  const live = el('div', { class: 'sr', 'aria-live': 'polite' });
  scroller.append(canvas, spacer);
  let boxes = [], hover = -1, rows = 16;

  function layout() {
    const tree = shownTree();
    // The whole height first, so that the place takes no more than it may and the bar at its side comes only if it must.
    spacer.style.height = (rows + 1) * ROW + 8 + 'px';
    canvas.style.height = '0px';
    const width = scroller.clientWidth, viewport = scroller.clientHeight;
    const path = [];
    for (let at = view.zoom; at >= 0; at = tree.parent[at]) path.unshift(at);
    // Deepest row below the zoomed node that is wide enough to be drawn.
    const top = scroller.scrollTop, scale = width / (tree.total[view.zoom] || 1);
    boxes = [];
    let deepest = path.length - 1;
    path.forEach((node, row) => boxes.push({ node, row, x: 0, w: width, dim: row < path.length - 1 }));
    const stack = [[view.zoom, 0, path.length - 1]];
    while (stack.length) {
      const [node, x, row] = stack.pop();
      let at = x;
      for (let c = tree.start[node]; c < tree.start[node + 1]; c++) {
        const child = tree.children[c], w = tree.total[child] * scale;
        // Children come heaviest first: the rest is no wider.
        if (w < 0.5) break;
        boxes.push({ node: child, row: row + 1, x: at, w, dim: false });
        if (row + 1 > deepest) deepest = row + 1;
        stack.push([child, at, row + 1]);
        at += w;
      }
    }
    if (deepest !== rows) { rows = deepest; return layout(); }
    const height = (rows + 1) * ROW + 8;
    spacer.style.height = Math.max(0, height - viewport) + 'px';
    draw(tree, width, viewport, Math.min(top, Math.max(0, height - viewport)));
  }

  function draw(tree, width, height, top) {
    const g = fit(canvas, width, height), found = searchHits();
    const ink = isDark() ? '#f2f4f7' : '#1b2330', hitColor = cssColor('--hit'), soft = cssColor('--faint');
    const allColor = isDark() ? '#39424f' : '#d5dbe4';
    g.font = '12px ' + cssColor('--sans');
    g.textBaseline = 'middle';
    for (const box of boxes) {
      const y = box.row * ROW - top + 3;
      if (y > height || y + ROW < 0) continue;
      const fn = tree.fn[box.node], hit = found && fn >= 0 && found[fn];
      const w = Math.max(0.5, box.w - (box.w > 3 ? 1 : 0));
      g.globalAlpha = box.dim ? 0.55 : found && !hit && fn >= 0 ? 0.42 : 1;
      g.fillStyle = hit ? hitColor : fn >= 0 ? kindColor(FN.kind[fn], fn) : fn === FOLDED ? soft : allColor;
      g.fillRect(box.x, y, w, ROW - 1);
      const focused = box.node === view.focus && document.activeElement === canvas;
      if (box.node === hover || focused) {
        g.globalAlpha = 1;
        g.strokeStyle = focused ? cssColor('--accent') : ink;
        g.lineWidth = focused ? 2 : 1;
        g.strokeRect(box.x + 1, y + 1, Math.max(1, w - 2), ROW - 3);
      }
      if (box.w > 26) {
        g.globalAlpha = box.dim ? 0.7 : found && !hit && fn >= 0 ? 0.6 : 1;
        g.fillStyle = hit ? (isDark() ? '#201018' : '#ffffff') : ink;
        const name = nodeName(tree, box.node, false), forms = [name];
        if (fn >= 0) forms.push(name.slice(0, FN.plain[fn]), FN.short[fn]);
        const text = forms.find(form => g.measureText(form).width <= box.w - 9) ?? forms.at(-1);
        g.fillText(fitText(g, text, box.w - 9), box.x + 5, y + ROW / 2);
      }
    }
    g.globalAlpha = 1;
    if (!tree.total[0]) {
      g.fillStyle = soft;
      g.textAlign = 'center';
      g.fillText('No samples with this choice of thread and states.', width / 2, 60);
      g.textAlign = 'left';
    }
  }

  function way() {
    const tree = shownTree(), path = [];
    for (let at = view.zoom; at >= 0; at = tree.parent[at]) path.unshift(at);
    const parts = [];
    path.forEach((node, index) => {
      if (path.length > 9 && index > 1 && index < path.length - 5) {
        if (index === 2) parts.push(el('span', {}, `… ${path.length - 7} frames …`));
        return;
      }
      if (index) parts.push(el('span', { 'aria-hidden': 'true' }, '›'));
      const name = index ? nodeName(tree, node, true) : 'all';
      parts.push(index === path.length - 1 ? el('b', { 'aria-current': 'true' }, name)
        : el('button', { onclick: () => zoom(node), title: nodeName(tree, node, false) }, name));
    });
    const share = hitShare(tree, view.zoom), series = current();
    document.querySelector('.found').textContent = share === null ? '' : percent(share) + ' matched';
    const folded = series.folded && !tree.inverted
      ? ` · ${plural(series.folded[1], 'node')} below ${(series.folded[0] * 100).toPrecision(2)} % folded` : '';
    parts.push(el('span', { class: 'end' },
      `${amount(series, tree.total[view.zoom])} · ${plural(tree.totalSamples[view.zoom], series.calls ? 'call' : 'sample')}${folded}`));
    crumbs.replaceChildren(...parts);
  }

  function zoom(node) {
    view.zoom = view.focus = node;
    scroller.scrollTop = 0;
    refresh();
  }

  function refresh() { way(); layout(); }

  function boxAt(event) {
    const area = canvas.getBoundingClientRect(), x = event.clientX - area.left;
    const row = Math.floor((event.clientY - area.top - 3 + scroller.scrollTop) / ROW);
    return boxes.find(box => box.row === row && x >= box.x && x < box.x + Math.max(1, box.w));
  }

  canvas.addEventListener('mousemove', event => {
    const box = boxAt(event);
    if ((box ? box.node : -1) !== hover) { hover = box ? box.node : -1; layout(); }
    if (box) showTip(event, ...nodeTip(shownTree(), box.node)); else hideTip();
  });
  canvas.addEventListener('mouseleave', () => { hover = -1; hideTip(); layout(); });
  canvas.addEventListener('click', event => { const box = boxAt(event); if (box) zoom(box.node); });
  canvas.addEventListener('focus', () => layout());
  canvas.addEventListener('blur', () => layout());
  canvas.addEventListener('keydown', event => {
    const tree = shownTree(), at = view.focus;
    const kids = node => Array.from(tree.children.subarray(tree.start[node], tree.start[node + 1]));
    const beside = step => {
      if (at === 0) return at;
      const row = kids(tree.parent[at]);
      return row[row.indexOf(at) + step] ?? at;
    };
    let to;
    if (event.key === 'ArrowDown') to = kids(at)[0] ?? at;
    else if (event.key === 'ArrowUp') to = Math.max(0, tree.parent[at]);
    else if (event.key === 'ArrowRight') to = beside(1);
    else if (event.key === 'ArrowLeft') to = beside(-1);
    else if (event.key === 'Enter' || event.key === ' ') { event.preventDefault(); return zoom(at); }
    else if (event.key === 'Backspace') { event.preventDefault(); return zoom(Math.max(0, tree.parent[view.zoom])); }
    else if (event.key === 'Escape') return zoom(0);
    else return;
    event.preventDefault();
    view.focus = to;
    // A frame that is not in view because of the zoom gets it.
    if (!boxes.some(box => box.node === to)) view.zoom = to === 0 ? 0 : tree.parent[to];
    const box = (layout(), boxes.find(box => box.node === to));
    if (box) {
      const y = box.row * ROW;
      if (y < scroller.scrollTop) scroller.scrollTop = y;
      if (y + ROW + 8 > scroller.scrollTop + scroller.clientHeight) scroller.scrollTop = y + ROW + 8 - scroller.clientHeight;
    }
    refresh();
    live.textContent = `${nodeName(tree, to, false)}, ${percent(tree.total[to] / (tree.total[0] || 1))}`;
  });
  scroller.addEventListener('scroll', () => { hideTip(); layout(); });
  flame = { refresh };

  const sums = new Float64Array(D.kinds.length), all = trees().down;
  for (let i = 1; i < all.size; i++) if (all.fn[i] >= 0) sums[FN.kind[all.fn[i]]] += all.own[i];
  const legend = el('div', { class: 'legend', 'aria-label': 'Colours, with the share of each kind itself' },
    D.kinds.map((name, kind) => sums[kind] > 0
      ? el('span', {}, swatch(kindColor(kind, 0)), name + ' ', el('b', {}, percent(sums[kind] / (all.total[0] || 1)))) : null));
  const card = el('section', { class: 'card', 'aria-label': 'Flame graph' }, timelineStrip(), crumbs, scroller, legend, live);
  queueMicrotask(refresh);
  return [card, el('p', { class: 'hint' },
    'Click a frame to zoom. ', el('kbd', {}, '/'), ' searches, ', el('kbd', {}, '←↑→↓'), ' ', el('kbd', {}, 'Enter'), ' ',
    el('kbd', {}, 'Backspace'), ' ', el('kbd', {}, 'Esc'), ' move and zoom. Width is weight; siblings stand heaviest first, not in time.')];
}

/** Weight over time by class, with the GC pauses. */
function timelineStrip() {
  const series = current();
  const canvas = el('canvas', { role: 'img', 'aria-label': `${series.id} over time` });
  const strip = el('div', { class: 'strip' }, canvas);
  const { start, width: step, rows } = series.timeline;
  const off = view.off[series.id];
  const used = typed(series) ? [0] : rows.map((_, i) => i).filter(i => !off.has(i));
  const height = 64, base = 50;
  // No more columns than can be distinguished, each of whole buckets: else samples that come every few buckets look like a comb.
  const buckets = Math.max(1, Math.ceil((D.meta.duration - start) / step));
  const ticks = D.meta.profilers.find(run => run.id === series.id)?.rate;
  const columnsFor = width => {
    const wanted = Math.max(20, Math.min(width / 5, ticks ? D.meta.duration / 1e6 * ticks / 4 : series.samples / 6));
    const per = Math.max(1, Math.ceil(buckets / wanted));
    const columns = [];
    for (let from = 0; from < buckets; from += per)
      columns.push(rows.map(row => { let sum = 0; for (let i = from; i < from + per; i++) sum += row[i] || 0; return sum; }));
    return { per, columns };
  };
  const scaleOf = (columns, per) => {
    const most = Math.max(1e-9, ...columns.map(column => used.reduce((sum, row) => sum + column[row], 0)));
    return { most, perUnit: per * step };
  };
  function draw() {
    const width = strip.clientWidth, g = fit(canvas, width, height);
    const { per, columns } = columnsFor(width), { most, perUnit } = scaleOf(columns, per);
    const x = time => time / (D.meta.duration || 1) * width;
    columns.forEach((column, i) => {
      let y = base;
      const left = x(start + i * per * step), right = Math.min(width, x(start + (i + 1) * per * step));
      for (const row of used) {
        const h = column[row] / most * (base - 16);
        g.fillStyle = series.id === 'cpu' ? (isDark() ? '#5b86c9' : '#7fa8e6') : series.id === 'exceptions' ? '#d8504d' : series.id === 'allocations' ? '#4d9e8c' : classColor(series, row);
        g.fillRect(left, y - h, Math.max(0.5, right - left - 0.5), h);
        y -= h;
      }
    });
    g.fillStyle = isDark() ? '#ff8f6b' : '#c9381a';
    for (const [at, length] of D.gc.pauses) g.fillRect(x(at), base + 1, Math.max(1, x(length)), 3);
    g.fillStyle = cssColor('--faint');
    g.font = '11px ' + cssColor('--sans');
    g.textBaseline = 'alphabetic';
    const mark = niceStep(D.meta.duration || 1, Math.max(2, width / 160));
    for (let time = 0; time < D.meta.duration; time += mark) {
      g.fillRect(x(time), base, 1, 4);
      g.fillText(duration(time) === '0' ? '0 s' : duration(time), Math.min(x(time) + 4, width - 40), height - 2);
    }
    const peak = series.unit === 'count' ? rate(most / perUnit * 1e6) : series.unit === 'bytes' ? bytes(Math.round(most / perUnit * 1e6)) + '/s'
      : series.id === 'cpu' ? `${(most / perUnit).toFixed(2)} processors` : `${(most / perUnit).toFixed(1)} threads`;
    g.textAlign = 'right';
    g.fillText('peak ' + peak, width - 6, 11);
    g.textAlign = 'left';
  }
  canvas.addEventListener('mousemove', event => {
    const area = canvas.getBoundingClientRect(), time = (event.clientX - area.left) / area.width * D.meta.duration;
    const { per, columns } = columnsFor(area.width), column = columns[Math.floor((time - start) / (per * step))];
    const lines = [['at', duration(Math.max(1, time))]];
    if (column) for (const row of used) {
      if (!column[row] && series.id !== 'cpu') continue;
      const value = column[row] / (per * step);
      lines.push(series.unit === 'count' ? ['exceptions', rate(value * 1e6)] : series.unit === 'bytes' ? ['allocated', bytes(Math.round(value * 1e6)) + '/s']
        : series.id === 'cpu' ? ['processors busy', value.toFixed(2)] : [series.classes[row], `${value.toFixed(1)} threads`]);
    }
    const near = D.gc.pauses.filter(([at, length]) => time > at - D.meta.duration / 300 && time < at + length + D.meta.duration / 300);
    if (near.length) lines.push(['runtime suspended', near.slice(0, 3).map(([, length]) => duration(length)).join(', ')]);
    showTip(event, tipTable(lines));
  });
  canvas.addEventListener('mouseleave', hideTip);
  redraws.push(draw);
  queueMicrotask(draw);
  return strip;
}

// ---------------------------------------------------------------- functions

function functionsView() {
  const series = current(), tree = trees().down, all = tree.total[0] || 1, n = effective(tree), found = searchHits();
  const keys = { own: row => row.own, total: row => row.total, name: row => row.fn };
  let rows = functionSums().filter(row => !found || found[row.fn]);
  rows.sort(view.sort === 'name'
    ? (a, b) => FN.name[a.fn] < FN.name[b.fn] ? -1 : 1
    : (a, b) => keys[view.sort](b) - keys[view.sort](a) || b.total - a.total);
  document.querySelector('.found').textContent = found ? plural(rows.length, 'method') : '';
  const heading = (id, title, attributes) => el('th', { ...attributes, scope: 'col', 'aria-sort': view.sort === id ? (id === 'name' ? 'ascending' : 'descending') : null },
    el('button', { onclick: () => { view.sort = id; render(); } }, title + (view.sort === id ? (id === 'name' ? ' ▲' : ' ▼') : '')));
  const share = value => {
    const part = value / all;
    return exact(series) ? percent(part)
      : [percent(part) + ' ', el('span', { class: 'pm' }, '± ' + (margin(part, n) * 100).toFixed(1))];
  };
  const body = rows.slice(0, view.rows).map(row => {
    const bar = el('span', { class: 'bar', 'aria-hidden': 'true' }, el('i', { class: 'total' }), el('i'));
    bar.children[0].style.width = row.total / all * 100 + '%';
    bar.children[1].style.width = row.own / all * 100 + '%';
    const where = [series.calls ? plural(row.samples, 'call') : '', FN.module[row.fn] ? D.modules[FN.module[row.fn] - 1] : D.kinds[FN.kind[row.fn]],
      place(row.file, row.line)].filter(text => text);
    return el('tr', {},
      el('td', { class: 'n' }, share(row.own)), el('td', { class: 'n' }, amount(series, row.own)),
      el('td', {}, bar),
      el('td', { class: 'n' }, share(row.total)), el('td', { class: 'n' }, amount(series, row.total)),
      el('td', { class: 'fn' }, el('div', { class: 'named' }, swatch(kindColor(FN.kind[row.fn], 0), 'kind'),
        el('button', { title: 'Show in the flame graph', onclick: () => { view.search = FN.name[row.fn]; view.tab = 'flame'; view.zoom = view.focus = 0; render(); } }, FN.name[row.fn])),
        el('div', { class: 'where' }, where.join(' · '))));
  });
  const table = el('table', { class: 'data' },
    el('thead', {}, el('tr', {}, heading('own', 'Self', { class: 'n', colspan: 2 }), el('th', { scope: 'col' }, el('span', { class: 'sr' }, 'Self in total')),
      heading('total', 'Total', { class: 'n', colspan: 2 }), heading('name', 'Method'))),
    el('tbody', {}, body));
  return [el('section', { class: 'card scroll', 'aria-label': 'Methods' }, rows.length ? table : el('div', { class: 'empty' }, 'No method with this choice.'),
    rows.length > view.rows ? el('div', { class: 'more' }, el('button', { class: 'plain', onclick: () => { view.rows += 400; render(); } }, 'Show more'),
      `${count(view.rows)} of ${count(rows.length)} methods`) : null),
  el('p', { class: 'hint' }, 'Self is the time in the method itself, total includes what it called. ' + (series.calls ? 'Every call is counted.'
    : '± is the 95 % interval in points: two methods whose intervals overlap may well be equal.'))];
}

// ---------------------------------------------------------------- threads

function threadsView() {
  const cpu = D.series.find(series => series.id === 'cpu'), wall = D.series.find(series => series.id === 'wall');
  const rows = D.threads.map(([name, managed], id) => ({
    id, name, managed, cpu: cpu?.byThread.get(id)?.weight || 0, wall: wall?.byThread.get(id),
  })).filter(row => row.cpu || row.wall);
  const idle = wall ? wall.classes.indexOf('pool idle') : -1;
  const busy = row => row.wall ? row.wall.weight - (idle >= 0 ? row.wall.classes[idle] : 0) : 0;
  rows.sort((a, b) => b.cpu - a.cpu || busy(b) - busy(a));
  const most = Math.max(1, ...rows.map(row => row.cpu));
  const folded = D.series.some(series => series.folded && series.folded[2]);
  const show = row => () => { view.thread = String(row.id); view.tab = 'flame'; view.zoom = view.focus = 0; render(); };
  const body = rows.slice(0, 500).map(row => {
    const bar = el('span', { class: 'bar', 'aria-hidden': 'true' }, el('i'));
    bar.children[0].style.width = row.cpu / most * 100 + '%';
    const stack = el('div', { class: 'stack' });
    if (row.wall) row.wall.classes.forEach((weight, i) => {
      if (!weight) return;
      const part = el('i', { title: `${wall.classes[i]}: ${percent(weight / row.wall.weight)}` });
      part.style.cssText = `width:${weight / row.wall.weight * 100}%;background:${classColor(wall, i)}`;
      stack.append(part);
    });
    const top = row.wall && row.wall.classes.map((weight, i) => [weight, i]).sort((a, b) => b[0] - a[0]).slice(0, 3)
      .filter(([weight]) => weight > 0).map(([weight, i]) => `${wall.classes[i]} ${(weight / row.wall.weight * 100).toFixed(0)} %`).join(', ');
    return el('tr', {}, el('td', { class: 'fn' }, el('button', { title: 'Show in the flame graph', onclick: show(row) }, row.name)),
      cpu ? [el('td', { class: 'n' }, row.cpu ? duration(row.cpu) : '·'), el('td', {}, bar)] : null,
      wall ? [el('td', { class: 'n' }, row.wall ? duration(row.wall.weight) : '·'), el('td', {}, stack, el('div', { class: 'where' }, top || ''))] : null);
  });
  if (!rows.length) return [el('section', { class: 'card empty' }, 'No samples of threads in this recording.')];
  return [el('section', { class: 'card scroll', 'aria-label': 'Threads' },
    el('table', { class: 'data' }, el('thead', {}, el('tr', {}, el('th', { scope: 'col' }, 'Thread'),
      cpu ? [el('th', { class: 'n', scope: 'col' }, 'CPU time'), el('th')] : null,
      wall ? [el('th', { class: 'n', scope: 'col' }, 'Wall time'), el('th', { scope: 'col' }, 'What it did')] : null)), el('tbody', {}, body)),
    rows.length > 500 ? el('div', { class: 'more' }, `The 500 busiest of ${count(rows.length)} threads.`) : null),
  wall ? el('div', { class: 'key' }, wall.classes.map((name, i) => el('span', {}, swatch(classColor(wall, i)), name))) : null,
  folded ? el('p', { class: 'hint' }, 'The recording is large: only the busiest threads are shown individually here. The text and JSON reports have all.') : null];
}

// ---------------------------------------------------------------- garbage collection

/** A chart with time from left to right. `paint(g, x, y0, width)` draws above the axis. */
function chart(label, height, paint, hover) {
  const canvas = el('canvas', { role: 'img', 'aria-label': label });
  const holder = el('div', { class: 'chart' }, canvas);
  holder.style.height = height + 'px';
  function draw() {
    const width = holder.clientWidth, g = fit(canvas, width, height), base = height - 18;
    const x = time => 52 + Math.max(0, Math.min(1, time / (D.meta.duration || 1))) * (width - 60);
    g.font = '11px ' + cssColor('--sans');
    g.fillStyle = cssColor('--faint');
    const mark = niceStep(D.meta.duration || 1, Math.max(2, width / 150));
    for (let time = 0; time <= D.meta.duration; time += mark) {
      const text = time ? duration(time) : '0';
      g.fillText(text, Math.min(x(time), width - 4 - g.measureText(text).width), height - 4);
    }
    paint(g, x, base, width);
    g.fillStyle = cssColor('--line');
    g.fillRect(52, base, width - 60, 1);
  }
  canvas.addEventListener('mousemove', event => {
    const area = canvas.getBoundingClientRect();
    const time = (event.clientX - area.left - 52) / (area.width - 60) * D.meta.duration;
    const content = hover(time, D.meta.duration / (area.width - 60));
    if (content) showTip(event, ...content); else hideTip();
  });
  canvas.addEventListener('mouseleave', hideTip);
  redraws.push(draw);
  queueMicrotask(draw);
  return holder;
}

/** Horizontal lines with their values. */
function gridLines(g, base, top, width, most, format) {
  // Sizes are shown in powers of 1024, so their steps are round in those.
  const unit = format === bytes ? 1024 ** Math.floor(Math.log(most) / Math.log(1024)) : 1;
  const step = niceStep(most / unit, 3) * unit;
  g.textAlign = 'right';
  for (let value = step; value <= most * 1.0001; value += step) {
    const y = base - value / most * (base - top);
    g.fillStyle = cssColor('--line');
    g.fillRect(52, y, width - 60, 1);
    g.fillStyle = cssColor('--faint');
    g.fillText(format(value), 47, y + 4);
  }
  g.textAlign = 'left';
}

function gcView() {
  const gc = D.gc;
  if (!gc.on) return [el('section', { class: 'card empty' }, 'The gc profiler was not part of this recording. Record with -p gc.')];
  const longest = Math.max(1, ...gc.pauses.map(pause => pause[1]));
  const color = generation => GENERATION_COLORS[generation] || '#7d8896';
  const pauses = chart('Pauses over time', 190, (g, x, base, width) => {
    gridLines(g, base, 12, width, longest, duration);
    for (const [at, length, , generation] of gc.pauses) {
      const h = Math.max(2, length / longest * (base - 12));
      g.fillStyle = color(generation);
      g.fillRect(x(at), base - h, Math.max(2, x(at + length) - x(at)), h);
    }
  }, (time, pixel) => {
    const near = gc.pauses.filter(([at, length]) => time >= at - 3 * pixel && time <= at + length + 3 * pixel);
    if (!near.length) return null;
    const [at, length, suspending, generation, reason, number] = near.reduce((a, b) => b[1] > a[1] ? b : a);
    const event = gc.events.find(event => event[1] === number);
    return [el('div', { class: 'name' }, `Pause of ${duration(length)}`), tipTable([
      ['at', duration(Math.max(1, at))], ['for', gc.pauseReason[reason] + (number !== null ? `, collection #${number}` : '')],
      generation >= 0 ? ['generation', String(generation)] : null, event ? ['collection', `${event[3]}, ${event[4]}${event[5] ? ', induced' : ''}`] : null,
      ['stopping threads', duration(suspending)], near.length > 1 ? ['here', plural(near.length, 'pause')] : null,
    ].filter(row => row))];
  });
  const peak = Math.max(1, gc.heapPeak);
  const total = sizes => sizes.reduce((sum, size) => sum + size, 0);
  const heap = chart('Heap after each collection', 190, (g, x, base, width) => {
    gridLines(g, base, 12, width, peak, bytes);
    gc.events.forEach((event, i) => {
      const next = gc.events[i + 1], left = x(event[0]), right = next ? x(next[0]) : x(D.meta.duration);
      let y = base;
      // From the oldest generation upwards, so that what stays is at the bottom.
      for (const part of [2, 3, 4, 1, 0]) {
        const h = event[6][part] / peak * (base - 12);
        g.fillStyle = HEAP_COLORS[part];
        g.globalAlpha = isDark() ? 0.75 : 1;
        g.fillRect(left, y - h, Math.max(1, right - left), h);
        y -= h;
      }
    });
    g.globalAlpha = 1;
  }, time => {
    const event = gc.events.findLast(event => event[0] <= time);
    if (!event) return null;
    return [el('div', { class: 'name' }, `Heap after collection #${event[1]} (gen ${event[2]}): ${bytes(total(event[6]))}`),
      tipTable(HEAPS.map((name, i) => [name, bytes(event[6][i])]))];
  });
  const row = (name, collections, [n, p50, p95, max, sum]) => el('tr', {}, el('td', {}, name),
    el('td', { class: 'n' }, collections === null ? '·' : count(collections)), el('td', { class: 'n' }, count(n)),
    [p50, p95, max, sum].map(value => el('td', { class: 'n' }, n ? duration(value) : '·')));
  const heads = ['', 'Collections', 'Pauses', 'p50', 'p95', 'Longest', 'Total'];
  const table = el('table', { class: 'data' },
    el('thead', {}, el('tr', {}, heads.map((name, i) => el('th', { class: i ? 'n' : null, scope: 'col' }, name)))),
    el('tbody', {}, gc.generations.map((pauses, i) => row([swatch(color(i), 'kind'), 'gen ' + i], gc.collections[i], pauses)),
      row('all pauses', total(gc.collections), gc.all), gc.all[0] ? row('of it stopping threads', null, gc.suspending) : null,
      gc.pauseReasons.map(([reason, pauses]) => row([swatch('transparent', 'kind'), reason + (reason === 'SuspendForProfiler' ? ' (not in the sum)' : '')], null, pauses))));
  return [
    el('div', { class: 'grid2' },
      el('section', { class: 'card pad' }, el('h2', {}, 'Pauses'), gc.pauses.length ? pauses : el('div', { class: 'empty' }, 'There was no GC pause.'),
        el('div', { class: 'key' }, [0, 1, 2].map(i => el('span', {}, swatch(color(i)), 'gen ' + i)), el('span', {}, swatch('#7d8896'), 'other')),
        gc.leftOut ? el('p', { class: 'hint' }, `The ${count(gc.pauses.length)} longest are drawn, ${count(gc.leftOut)} shorter ones are only counted.`) : null),
      el('section', { class: 'card pad' }, el('h2', {}, 'Heap after each collection'), gc.events.length ? heap : el('div', { class: 'empty' }, 'No collection happened.'),
        el('div', { class: 'key' }, HEAPS.map((name, i) => el('span', {}, swatch(HEAP_COLORS[i]), name))))),
    el('section', { class: 'card scroll' }, table),
    el('section', { class: 'card pad' }, el('h2', {}, 'Collections'), el('dl', { class: 'facts' },
      el('dt', {}, 'Time paused'), el('dd', {}, `${percent(gc.share)} of ${duration(D.meta.duration)}`),
      el('dt', {}, 'Reasons'), el('dd', {}, gc.reasons.map(([reason, n]) => `${reason} ${count(n)}`).join(', ') || 'none'),
      el('dt', {}, 'Induced'), el('dd', {}, count(gc.induced), gc.inducedBy.map(([name, calls]) => el('div', {}, `by ${name}: ${plural(calls, 'call')}`))),
      el('dt', {}, 'In the background'), el('dd', {}, count(gc.background)),
      el('dt', {}, 'Heap at the end'), el('dd', {}, `${bytes(total(gc.heapLast))} (${HEAPS.map((name, i) => `${name} ${bytes(gc.heapLast[i])}`).join(', ')})`),
      el('dt', {}, 'Heap at its peak'), el('dd', {}, bytes(gc.heapPeak)),
      el('dt', {}, 'Promoted in total'), el('dd', {}, bytes(total(gc.promoted)))))];
}

const HEAPS = ['gen 0', 'gen 1', 'gen 2', 'large objects', 'pinned objects'];

// ---------------------------------------------------------------- exceptions

function exceptionsView() {
  const { rows, exact, total, on } = D.exceptions;
  if (!on) return [el('section', { class: 'card empty' }, 'The exceptions profiler was not part of this recording. Record with -p exceptions.')];
  if (!rows.length) return [el('section', { class: 'card empty' }, 'No exception was thrown.')];
  const heads = [['Count', 'n'], ['Rate', 'n'], ['Type and most frequent message'], ['Mostly thrown at'], ['Mostly caught by'], ['Time to catch p50', 'n'], ['p95', 'n']];
  const method = (fn, where) => fn === null ? el('span', { class: 'pm' }, 'not known')
    : [el('button', { title: 'Show in the flame graph', onclick: () => { view.series = D.series.some(s => s.id === 'exceptions') ? 'exceptions' : view.series; view.search = FN.name[fn]; view.tab = 'flame'; view.zoom = view.focus = 0; render(); } }, FN.short[fn]),
      el('div', { class: 'where' }, where)];
  return [el('section', { class: 'card scroll', 'aria-label': 'Exceptions' }, el('table', { class: 'data' },
    el('thead', {}, el('tr', {}, heads.map(([name, cls]) => el('th', { class: cls, scope: 'col' }, name)))),
    el('tbody', {}, rows.map(row => el('tr', {},
      el('td', { class: 'n' }, count(row.count)), el('td', { class: 'n' }, rate(row.rate)),
      el('td', { class: 'fn' }, row.type, el('div', { class: 'where' }, (row.message ?? 'no message kept') + (row.messages > 1 ? ` (+${row.messages - 1} other)` : ''))),
      el('td', { class: 'fn', style: 'min-width:200px' }, method(row.thrown, place(row.file, row.line))),
      el('td', { class: 'fn', style: 'min-width:200px' }, method(row.caught, '')),
      el('td', { class: 'n' }, row.catchCount ? duration(row.p50) : '·'), el('td', { class: 'n' }, row.catchCount ? duration(row.p95) : '·')))))),
  el('p', { class: 'hint' }, `${plural(total, 'exception')} in total, ${exact ? 'counted exactly' : 'estimated from samples'}. Messages, places and times come from the ones that were kept as samples.`)];
}

// ---------------------------------------------------------------- allocations and locks

/** A method that a click shows in the flame graph of a profiler. */
function methodCell(profiler, fn, where, more) {
  if (fn === null) return el('span', { class: 'pm' }, 'not known');
  const show = () => {
    if (D.series.some(s => s.id === profiler)) view.series = profiler;
    view.search = FN.name[fn]; view.tab = 'flame'; view.zoom = view.focus = 0;
    render();
  };
  return [el('button', { title: 'Show in the flame graph', onclick: show }, FN.short[fn]), more || '', el('div', { class: 'where' }, where)];
}

const dataTable = (label, heads, rows) => el('section', { class: 'card scroll', 'aria-label': label }, el('table', { class: 'data' },
  el('thead', {}, el('tr', {}, heads.map(([name, cls]) => el('th', { class: cls, scope: 'col' }, name)))), el('tbody', {}, rows)));

/** Objects by type, every one counted. */
function exactAllocations({ objects, bytes: all, types, rows }) {
  return [
    el('p', { class: 'hint' }, `${bytes(all)} allocated in ${plural(objects, 'object')} of ${plural(types, 'type')}; every one counted.`),
    dataTable('Counted objects', [['Bytes', 'n'], ['Share', 'n'], ['Objects', 'n'], ['Type']], rows.map(([type, number, size]) => el('tr', {},
      el('td', { class: 'n' }, bytes(size)), el('td', { class: 'n' }, percent(size / (all || 1))), el('td', { class: 'n' }, count(number)),
      el('td', { class: 'fn' }, type))))];
}

function allocationsView() {
  const { rows, samples, biased, followed, heaps, bytes: all, objects, on, exact } = D.allocations;
  const counted = exact ? exactAllocations(exact) : [];
  if (!on && exact) return counted;
  if (!on) return [el('section', { class: 'card empty' }, 'The allocations profiler was not part of this recording. Record with -p allocations.')];
  if (!rows.length) return [...counted, el('section', { class: 'card empty' }, 'No allocation was sampled.')];
  const pm = ([value, margin], write) => [write(value) + ' ', el('span', { class: 'pm' }, '± ' + write(margin))];
  const heads = [['Bytes', 'n'], ['Share', 'n'], ['Objects', 'n'], ['Samples', 'n'], ['Type'], ['Mostly allocated at']];
  return [...counted,
    el('p', { class: 'hint' }, `${bytes(all[0])} ± ${bytes(all[1])} allocated${objects ? ` in ${count(objects[0])} ± ${count(objects[1])} objects` : ''}, estimated from ${plural(samples, 'sample')}; `
      + heaps.map(([heap, of]) => `${heap} ${bytes(of[0])}`).join(', ') + '. ± is the 95 % interval.'
      + (followed === null ? '' : ` Allocations were recorded in windows (duty cycle ${percent(followed)}), so that the program was not slowed down more; the rest is estimated from them, and the intervals include that.`)
      + (biased ? ' This runtime reports the object that fills up each 100 KB of a heap: shares are biased where a program allocates in a regular pattern.' : '')),
    dataTable('Allocations', heads, rows.map(row => el('tr', {},
      el('td', { class: 'n' }, pm(row.bytes, bytes)),
      el('td', { class: 'n' }, percent(row.share[0]) + ' ', el('span', { class: 'pm' }, '± ' + (row.share[1] * 100).toFixed(1))),
      el('td', { class: 'n' }, row.objects ? pm(row.objects, count) : '·'), el('td', { class: 'n' }, count(row.samples)),
      el('td', { class: 'fn' }, row.type),
      el('td', { class: 'fn', style: 'min-width:200px' }, methodCell('allocations', row.at, place(row.file, row.line))))))];
}

function locksView() {
  const { rows, all, histogram, on } = D.locks;
  if (!on) return [el('section', { class: 'card empty' }, 'The locks profiler was not part of this recording. Record with -p locks.')];
  if (!rows.length) return [el('section', { class: 'card empty' }, 'No thread had to wait for a lock.')];
  const heads = [['Waited', 'n'], ['Share', 'n'], ['Waits', 'n'], ['Threads', 'n'], ['p50', 'n'], ['p90', 'n'], ['p99', 'n'], ['Longest', 'n'], ['Mostly waited in'], ['Mostly held by']];
  const times = ([, , p50, p90, p99, max]) => [p50, p90, p99, max].map(time => el('td', { class: 'n' }, duration(time)));
  const most = Math.max(...histogram.map(([, n]) => n));
  const bars = histogram.map(([from, n]) => {
    const bar = el('span', { class: 'bar', 'aria-hidden': 'true' }, el('i', { class: 'total' }), el('i'));
    bar.children[1].style.width = n / most * 100 + '%';
    return el('tr', {}, el('td', { class: 'n' }, duration(from)), el('td', { class: 'n' }, count(n)), el('td', {}, bar));
  });
  return [
    el('p', { class: 'hint' }, `${plural(all[0], 'wait')}, ${duration(all[1])} in total; p50 ${duration(all[2])}, p90 ${duration(all[3])}, p99 ${duration(all[4])}, longest ${duration(all[5])}.`
      + (rows[0].lock ? '' : ' This runtime does not say which lock a thread waited for: waits are grouped by where they happened.')),
    dataTable('Locks', heads, rows.map(row => el('tr', {},
      el('td', { class: 'n' }, duration(row.waits[1])), el('td', { class: 'n' }, percent(row.share)), el('td', { class: 'n' }, count(row.waits[0])),
      el('td', { class: 'n' }, count(row.threads)), times(row.waits),
      el('td', { class: 'fn', style: 'min-width:200px' }, methodCell('locks', row.at, place(row.file, row.line), row.places > 1 ? ` (+${row.places - 1} other)` : '')),
      el('td', { class: 'fn' }, row.owner ?? el('span', { class: 'pm' }, 'not known'))))),
    dataTable('Lengths of waits', [['From', 'n'], ['Waits', 'n'], ['']], bars)];
}

// ---------------------------------------------------------------- survivors

function survivorsView() {
  const { collections, incomplete, time, generations, types, held } = D.survivors;
  const looks = collections.reduce((sum, n) => sum + n, 0);
  if (!looks) return [el('section', { class: 'card empty' }, 'There was no collection to take a snapshot of.')];
  const sums = ([size, n]) => n ? `${bytes(size)} (${count(n)})` : '·';
  return [facts([
    ['Collections with a snapshot', collections.map((n, i) => `gen ${i}: ${count(n)}`).join(', ')],
    incomplete ? ['Left out below', `${count(incomplete)}, in which some survivors are missing`] : null,
    ['In their GC pauses', `${duration(time[0])}, ${duration(time[1])} of it for the snapshots (${duration(time[2])} at most)`],
  ]),
  dataTable('What survived', [['Generation'], ['Collected', 'n'], ['In use before', 'n'], ['Survived', 'n'], ['Share', 'n'], ['Objects', 'n']], generations.map(([name, n, before, survived, rate, objects]) =>
    el('tr', {}, el('td', {}, name), el('td', { class: 'n' }, count(n)), el('td', { class: 'n' }, bytes(before)), el('td', { class: 'n' }, bytes(survived)),
      el('td', { class: 'n' }, rate === null ? '·' : percent(rate)), el('td', { class: 'n' }, count(objects))))),
  types.length ? dataTable('Young survivors', [['Bytes', 'n'], ['Objects', 'n'], ['Left in gen 0', 'n'], ['Gen 0 → 1', 'n'], ['Gen 1 → 2', 'n'], ['Type']], types.map(row =>
    el('tr', {}, el('td', { class: 'n' }, bytes(row.young[0])), el('td', { class: 'n' }, count(row.young[1])), row.moves.map(move => el('td', { class: 'n' }, sums(move))),
      el('td', { class: 'fn' }, row.type)))) : null,
  held.length ? dataTable('What retained them', [['Bytes', 'n'], ['Objects', 'n'], ['In collections', 'n'], ['Shortest path']], held.map(([size, n, times, chain]) =>
    el('tr', {}, el('td', { class: 'n' }, bytes(size)), el('td', { class: 'n' }, count(n)), el('td', { class: 'n' }, count(times)), el('td', { class: 'fn' }, chain)))) : null];
}

// ---------------------------------------------------------------- compilation and loads

const facts = rows => el('section', { class: 'card pad' }, el('dl', { class: 'facts' },
  rows.filter(row => row).map(([name, value]) => [el('dt', {}, name), el('dd', {}, value)])));

function jitView() {
  const { all, blocking, background, again, missing, rejected, dynamic, tiers, threads, found, lookups, overTime, rows } = D.jit;
  const cells = ([n, time, il, native]) => [el('td', { class: 'n' }, count(n)), el('td', { class: 'n' }, duration(time)), el('td', { class: 'n' }, bytes(il)), el('td', { class: 'n' }, bytes(native))];
  const some = (name, of) => of[0] ? [name, `${count(of[0])} in ${duration(of[1])}`] : null;
  const summary = facts([
    ['Compiled', `${plural(all[0], 'method')} in ${duration(all[1])}: ${bytes(all[2])} of IL became ${bytes(all[3])} of code`],
    ['Threads waited for', `${count(blocking[0])} in ${duration(blocking[1])}`], some('In the background', background),
    some('Compiled before', again), some('Although their module is precompiled', missing), some('Precompiled code refused', rejected), some('Dynamic methods', dynamic),
    lookups ? ['Precompiled code used', `for ${count(found)} of ${plural(lookups, 'method')}`] : null,
  ]);
  if (!rows.length) return [summary, el('section', { class: 'card empty' }, 'No method was compiled.')];
  const sizes = [['Methods', 'n'], ['Time', 'n'], ['IL', 'n'], ['Code', 'n']];
  return [summary,
    el('section', { class: 'card pad' }, el('h2', {}, 'Methods compiled per second'), lineChart(overTime, 'Methods compiled per second')),
    dataTable('By tier', [['Tier'], ...sizes], tiers.map(([tier, of]) => el('tr', {}, el('td', {}, tier), cells(of)))),
    dataTable('Compiled methods', [['Time', 'n'], ['Waited', 'n'], ['Longest', 'n'], ['Times', 'n'], ['IL', 'n'], ['Code', 'n'], ['Tiers'], ['Method'], ['Mostly for a call in']],
      rows.map(row => el('tr', {}, el('td', { class: 'n' }, duration(row.sums[1])), el('td', { class: 'n' }, duration(row.blocking)), el('td', { class: 'n' }, duration(row.longest)),
        el('td', { class: 'n' }, count(row.sums[0])), el('td', { class: 'n' }, bytes(row.sums[2])), el('td', { class: 'n' }, bytes(row.sums[3])),
        el('td', {}, row.tiers.map(([tier, n]) => n > 1 ? `${n} × ${tier}` : tier).join(', '), el('div', { class: 'where' }, row.precompiled)),
        el('td', { class: 'fn', style: 'min-width:200px' }, methodCell('jit', row.function, FN.module[row.function] ? D.modules[FN.module[row.function] - 1] : '', row.methods > 1 ? ` (${count(row.methods)} of them)` : '')),
        el('td', { class: 'fn', style: 'min-width:200px' }, row.at === null ? '·' : methodCell('jit', row.at, place(row.file, row.line)))))),
    dataTable('What threads waited for', [['Waited', 'n'], ['Methods', 'n'], ['Thread']], threads.map(([name, n, time]) =>
      el('tr', {}, el('td', { class: 'n' }, duration(time)), el('td', { class: 'n' }, count(n)), el('td', {}, name))))];
}

function loadsView() {
  const { timed, counts: [loaded, known, failed, dynamic, collectible, unloaded], time, steps, distinct, threads, assemblies, types } = D.loads;
  const summary = facts([
    ['Assemblies loaded', `${count(loaded)}, ${count(dynamic)} of them made at run time, ${count(collectible)} can be unloaded`], ['Unloaded', count(unloaded)],
    timed ? ['Requests besides', `${count(known)} for what was known already, ${count(failed)} failed`] : ['Not reported', 'how long loads took, what was not found, types: .NET 5 and newer report it'],
    timed ? ['Time for assemblies', `${duration(time[0])}, ${duration(time[1])} of it for what was not found`] : null,
    timed ? ['Types', `${count(distinct)} in ${plural(steps, 'step')}, for ${duration(time[2])}`] : null,
  ]);
  const heads = [['At', 'n'], ['Took', 'n'], ['To find it', 'n'], ['Assembly'], [''], ['File and search'], ['Requested by'], ['For a call in'], ['Thread']];
  const unknown = value => value === null ? '·' : duration(value);
  const slow = row => row.steps.filter(([, , , took]) => row.failed || took >= 1000)
    .map(([what, ok, result, took]) => el('div', { class: 'where' }, `${duration(took)} ${what}: ${ok ? 'found' : 'not found'}${result ? `, ${result}` : ''}`));
  return [summary,
    assemblies.length ? dataTable('Assemblies', heads, assemblies.map(row => el('tr', {}, el('td', { class: 'n' }, duration(Math.max(1, row.time))),
      el('td', { class: 'n' }, unknown(row.own)), el('td', { class: 'n' }, unknown(row.resolution)),
      el('td', { class: 'fn' }, row.name, el('div', { class: 'where' }, row.version)), el('td', {}, row.outcome),
      el('td', { class: 'fn' }, row.path, slow(row)), el('td', { class: 'fn' }, row.by, el('div', { class: 'where' }, row.context === 'Default' ? '' : row.context)),
      el('td', { class: 'fn', style: 'min-width:200px' }, methodCell('loads', row.at, place(row.file, row.line))), el('td', {}, row.thread)))) : null,
    types.length ? dataTable('Types', [['Took', 'n'], ['Longest, inclusive', 'n'], ['Steps', 'n'], ['Type'], ['Mostly for a call in']], types.map(row => el('tr', {},
      el('td', { class: 'n' }, duration(row.own)), el('td', { class: 'n' }, duration(row.longest)), el('td', { class: 'n' }, count(row.steps)), el('td', { class: 'fn' }, row.type),
      el('td', { class: 'fn', style: 'min-width:200px' }, methodCell('loads', row.at, place(row.file, row.line)))))) : null,
    timed && threads.length ? dataTable('What threads waited for', [['Assemblies', 'n'], ['Requests', 'n'], ['Types', 'n'], ['Steps', 'n'], ['Thread']], threads.map(([name, n, a, m, t]) =>
      el('tr', {}, el('td', { class: 'n' }, duration(a)), el('td', { class: 'n' }, count(n)), el('td', { class: 'n' }, duration(t)), el('td', { class: 'n' }, count(m)), el('td', {}, name)))) : null];
}

// ---------------------------------------------------------------- counters

/** A number of any size in few digits. */
const fewDigits = value => Math.abs(value) >= 1000 ? Math.round(value).toLocaleString('en') : String(+value.toPrecision(4));

/** Values over the time of the recording, as a line. */
function lineChart(values, label) {
  const W = 260, H = 56, NS = 'http://www.w3.org/2000/svg';
  const all = values.map(([, value]) => value), low = Math.min(0, ...all), high = Math.max(...all, low + 1e-9);
  const x = time => time / (D.meta.duration || 1) * W, y = value => H - 2 - (value - low) / (high - low) * (H - 4);
  const make = (name, attributes) => {
    const node = document.createElementNS(NS, name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    return node;
  };
  const svg = make('svg', { viewBox: `0 0 ${W} ${H}`, class: 'line', role: 'img', 'aria-label': label });
  const points = values.map(([time, value]) => `${x(time).toFixed(1)},${y(value).toFixed(1)}`).join(' ');
  svg.append(make('line', { x1: 0, x2: W, y1: y(0), y2: y(0), class: 'zero' }), make('polyline', { points }));
  for (const [time, value] of values) {
    const dot = make('circle', { cx: x(time).toFixed(1), cy: y(value).toFixed(1), r: values.length > 60 ? 1 : 2 });
    const title = make('title', {});
    title.textContent = `${(time / 1e6).toFixed(1)} s: ${fewDigits(value)}`;
    dot.append(title);
    svg.append(dot);
  }
  return svg;
}

function countersView() {
  const { rows } = D.counters;
  if (!rows.length) return [el('section', { class: 'card empty' }, 'No values: recordings shorter than the interval have none.')];
  const heads = [['Counter'], ['Over time'], ['Last', 'n'], ['Mean', 'n'], ['Min', 'n'], ['Max', 'n'], ['Unit']];
  const sources = [...new Set(rows.map(row => row.source))].sort();
  return sources.map(source => dataTable(source, heads, rows.filter(row => row.source === source)
    .sort((a, b) => a.title.localeCompare(b.title)).map(row =>
      el('tr', {}, el('td', { class: 'fn' }, row.title, el('div', { class: 'where' }, row.tags)), el('td', {}, lineChart(row.values, row.title)),
        row.summary.map(value => el('td', { class: 'n' }, fewDigits(value))),
        el('td', {}, row.unit + (row.rate ? '/s' : '')))))).flatMap((table, index) => [el('h2', {}, sources[index]), table]);
}

// ---------------------------------------------------------------- all threads, and the thread pool

/** A place as number of the function, of the file and of the line. */
const placeCell = (profiler, at, otherwise) => at ? methodCell(profiler, at[0], place(at[1], at[2])) : otherwise;

function looksView() {
  const { rows, starts, counts } = D.looks;
  if (!rows.length) return [el('section', { class: 'card empty' }, 'No thread snapshot was taken: the recording was too short.')];
  const heads = [['Thread'], ['Of'], ['Id', 'n'], ['CPU', 'n'], ['Age', 'n'], ['State'], ['Is'], ['In'], ['Started in']];
  return [
    el('section', { class: 'card pad' }, el('h2', {}, 'Threads over time'), lineChart(counts, 'Threads over time')),
    starts.length ? dataTable('Started during the recording', [['Started in'], ['Started', 'n'], ['Rate', 'n'], ['Ended', 'n'], ['Left', 'n'], [''], ['Why']],
      starts.map(row => el('tr', {}, el('td', { class: 'fn' }, placeCell('threads', row.at, row.word), el('div', { class: 'where' }, row.example)),
        el('td', { class: 'n' }, count(row.started)), el('td', { class: 'n' }, rate(row.rate)), el('td', { class: 'n' }, count(row.ended)),
        el('td', { class: 'n' }, count(row.started - row.ended)), el('td', {}, row.leak ? 'leak' : ''), el('td', {}, row.reason)))) : null,
    dataTable('Threads', heads, rows.map(row => el('tr', {}, el('td', {}, row.name), el('td', {}, row.role), el('td', { class: 'n' }, row.id ?? ''),
      el('td', { class: 'n' }, duration(row.cpu)), el('td', { class: 'n' }, duration(row.age)), el('td', {}, `${row.os} ${row.state}`),
      el('td', {}, row.is + (row.alive ? '' : ', ended'), el('div', { class: 'where' }, row.reason)), el('td', { class: 'fn' }, placeCell('threads', row.at, '')),
      el('td', { class: 'fn' }, placeCell('threads', row.started, ''))))),
  ];
}

function poolView() {
  const { verdict, charts, kinds, blocking, adjustments } = D.pool;
  const all = kinds.reduce((sum, [, time]) => sum + time, 0) || 1;
  return [
    el('section', { class: 'card pad' }, el('h2', {}, 'Thread pool'), el('p', {}, verdict)),
    charts.length ? dataTable('Over time', [[''], ['Over time'], ['Most', 'n']], charts.map(({ title, values }) =>
      el('tr', {}, el('td', {}, title), el('td', {}, lineChart(values, title)), el('td', { class: 'n' }, fewDigits(Math.max(0, ...values.map(([, v]) => v))))))) : null,
    kinds.length ? dataTable('Workers with work', [['Running, or waiting for'], ['Time', 'n'], ['Share', 'n']], kinds.map(([word, time]) =>
      el('tr', {}, el('td', {}, word), el('td', { class: 'n' }, duration(time)), el('td', { class: 'n' }, percent(time / all))))) : null,
    blocking.length ? dataTable('Where workers are blocked', [['In'], ['Wait for'], ['Time', 'n'], ['While items waited', 'n'], ['Share', 'n'], ['Workers', 'n']], blocking.map(row =>
      el('tr', {}, el('td', { class: 'fn' }, placeCell('threadpool', row.at, '')), el('td', {}, row.word), el('td', { class: 'n' }, duration(row.time)),
        el('td', { class: 'n' }, duration(row.queued)), el('td', { class: 'n' }, percent(row.share)), el('td', { class: 'n' }, count(row.threads))))) : null,
    adjustments.length ? dataTable('Why the number of workers was changed', [['Reason'], ['Times', 'n'], ['By', 'n'], ['First', 'n'], ['Last', 'n']], adjustments.map(row =>
      el('tr', {}, el('td', {}, row[0]), el('td', { class: 'n' }, count(row[1])), el('td', { class: 'n' }, (row[2] > 0 ? '+' : '') + row[2]),
        el('td', { class: 'n' }, duration(row[3])), el('td', { class: 'n' }, duration(row[4]))))) : null,
  ];
}

// ---------------------------------------------------------------- recording

function recordingView() {
  const m = D.meta, o = D.observer;
  const facts = [
    ['Process', `${m.process} (pid ${m.pid})`], ['Command', m.command], ['Runtime', `.NET ${m.runtime} on ${m.platform}, ${plural(m.cpus, 'processor')}`],
    ['Recorded', `${duration(m.duration)} from ${m.started}, ${m.entry}; ${m.ending}`],
    ...m.profilers.map(run => [run.id, [run.achieved ? `${run.achieved};` : '', run.asked ? `${run.asked} Hz` : '', run.engine, ...run.params].filter(text => text).join(', ')]),
    ...D.series.map(series => [`Samples, ${series.id}`, count(series.samples) + (series.truncated ? `, ${count(series.truncated)} with a stack cut at the depth limit` : '')]),
    ['Dropped', m.dropped ? o.dropped.map(([name, n]) => `${name} ${count(n)}`).join(', ') : 'nothing'],
  ];
  const cost = o && [
    ['Processor time in the process', `${duration(o.cpu)} (${percent(o.cpu / (o.since || 1))} of one processor)`],
    ['Memory in the process', bytes(o.memory)], ['Runtime suspended for clrscope', `${duration(o.stopped)} (${percent(o.stopped / (o.since || 1))})`],
    ['clrscope itself', duration(o.own)], ...o.counters.map(([name, n]) => [name, count(n)]),
  ];
  const list = rows => el('dl', { class: 'facts' }, rows.map(([name, value]) => [el('dt', {}, name), el('dd', {}, value)]));
  return [el('section', { class: 'card pad' }, el('h2', {}, 'Recording'), list(facts)),
    cost ? el('section', { class: 'card pad' }, el('h2', {}, 'Cost of the observation'), list(cost)) : null,
    o && o.held.length ? dataTable('Held in the process', [['What'], ['Highest', 'n'], ['Budget', 'n'], ['Refused', 'n'], ['Left after', 'n']], o.held.map(([name, inBytes, highest, budget, refused, left]) => {
      const amount = n => n === null ? '' : inBytes ? bytes(n) : count(n);
      return el('tr', {}, el('td', {}, name), ...[amount(highest), amount(budget), count(refused), amount(left)].map(text => el('td', { class: 'n' }, text)));
    })) : null,
    D.notes.length ? el('section', { class: 'card pad' }, el('h2', {}, 'Notes'), list(D.notes.map(([at, note]) => [`${(at / 1e6).toFixed(1)} s`, note]))) : null];
}

/** What the page has as it is shown. */
const documentView = id => document.getElementById('document-' + id).content.cloneNode(true);

// ---------------------------------------------------------------- the page

const TABS = [
  { id: 'flame', title: 'Flame graph', make: flameView, samples: true },
  { id: 'functions', title: 'Methods', make: functionsView, samples: true },
  { id: 'threads', title: 'Threads', make: threadsView },
  { id: 'gc', title: 'Garbage collection', make: gcView },
  { id: 'exceptions', title: 'Exceptions', make: exceptionsView },
  // Not part of most recordings.
  ...D.documents.map(([id, title]) => ({ id, title, make: () => [documentView(id)] })),
  ...(D.survivors.on ? [{ id: 'survivors', title: 'Survivors', make: survivorsView }] : []),
  ...(D.allocations.on || D.allocations.exact ? [{ id: 'allocations', title: 'Allocations', make: allocationsView }] : []),
  ...(D.locks.on ? [{ id: 'locks', title: 'Locks', make: locksView }] : []),
  ...(D.looks.on ? [{ id: 'all-threads', title: 'All threads', make: looksView }] : []),
  ...(D.pool.on ? [{ id: 'pool', title: 'Thread pool', make: poolView }] : []),
  ...(D.jit.on ? [{ id: 'jit', title: 'Compilation', make: jitView }] : []),
  ...(D.loads.on ? [{ id: 'loads', title: 'Loads', make: loadsView }] : []),
  ...(D.counters.on ? [{ id: 'counters', title: 'Counters', make: countersView }] : []),
  { id: 'recording', title: 'Recording', make: recordingView },
];

let redraws = [];
const content = el('main', { id: 'content', role: 'tabpanel', tabindex: -1 });
const tabs = el('div', { class: 'tabs', role: 'tablist', 'aria-label': 'Views' });
const tools = el('div', { class: 'tools' });
const found = el('span', { class: 'found', role: 'status' });
let timer = 0;
const search = el('input', {
  type: 'search', placeholder: 'Search methods, or /regular expression/', 'aria-label': 'Search methods', spellcheck: 'false',
  oninput: () => { clearTimeout(timer); timer = setTimeout(() => { view.search = search.value.trim(); searched(); }, 120); },
});

function searched() {
  writeHash();
  if (view.tab === 'flame' && flame) flame.refresh(); else render();
}

function tiles() {
  const tile = (label, value, small, note) => el('div', { class: 'tile' }, el('div', { class: 'label' }, label),
    el('div', { class: 'value' }, value, small ? el('small', {}, ' ' + small) : null), el('div', { class: 'note' }, note || '\u00a0'));
  const list = [], series = id => D.series.find(series => series.id === id), cpu = series('cpu'), wall = series('wall');
  list.push(tile('Recorded', duration(D.meta.duration), null, D.meta.entry));
  if (cpu) list.push(tile('Processors busy', (cpu.weight / (D.meta.duration || 1)).toFixed(2), `of ${D.meta.cpus}`,
    `${duration(cpu.weight)} in ${plural(cpu.samples, 'sample')}`));
  if (wall) {
    const sums = new Array(wall.classes.length).fill(0);
    for (const { classes } of wall.byThread.values()) classes.forEach((weight, i) => sums[i] += weight);
    const of = name => sums[wall.classes.indexOf(name)] || 0, average = weight => (weight / (D.meta.duration || 1)).toFixed(2);
    list.push(tile('Blocked', average(of('lock') + of('task')), 'threads', `on locks ${average(of('lock'))}, on tasks ${average(of('task'))}`));
  }
  if (D.exceptions.on) list.push(tile('Exceptions', count(D.exceptions.total), D.exceptions.total ? rate(D.exceptions.total / (D.meta.duration || 1) * 1e6) : null,
    D.exceptions.total ? `${plural(D.exceptions.rows.length, 'type')}, ${D.exceptions.exact ? 'counted exactly' : 'estimated'}` : 'none was thrown'));
  if (D.survivors.on) {
    const of = D.survivors.generations.find(([name]) => name === 'gen 0'), young = D.survivors.types[0];
    list.push(tile('Survived gen 0', of && of[4] !== null ? percent(of[4]) : '·', null, young ? `most: ${young.type.replace(/[\w.]*\./g, '')}` : 'no young survivor'));
  }
  if (D.allocations.on) list.push(tile('Allocated', bytes(D.allocations.bytes[0]), bytes(Math.round(D.allocations.bytes[0] / (D.meta.duration || 1) * 1e6)) + '/s',
    `± ${bytes(D.allocations.bytes[1])}, ${plural(D.allocations.samples, 'sample')}`));
  if (D.allocations.exact) list.push(tile('Objects', count(D.allocations.exact.objects), null, `${bytes(D.allocations.exact.bytes)}, every one counted`));
  if (D.locks.on) list.push(tile('Waited for locks', (D.locks.all[1] / (D.meta.duration || 1)).toFixed(2), 'threads', D.locks.all[0] ? `${plural(D.locks.all[0], 'wait')}, longest ${duration(D.locks.all[5])}` : 'no wait'));
  if (D.looks.on) list.push(tile('Zombie suspects', count(D.looks.rows.filter(row => row.bad).length), 'threads', `of ${count(D.looks.rows.length)}; ${plural(D.looks.starts.filter(row => row.leak).length, 'leak')}`));
  if (D.pool.on) list.push(tile('Thread pool', D.pool.health, null, D.pool.kinds.length ? '' : 'no worker was seen'));
  if (D.jit.on) list.push(tile('Waited for compilation', duration(D.jit.blocking[1]), null, `${plural(D.jit.all[0], 'method')} compiled, ${count(D.jit.background[0])} in the background`));
  if (D.loads.on) list.push(tile('Assemblies loaded', count(D.loads.counts[0]), null, D.loads.timed ? `${duration(D.loads.time[0])}; types ${duration(D.loads.time[2])}` : `${count(D.loads.counts[5])} unloaded`));
  if (D.gc.on) list.push(tile('GC paused', percent(D.gc.share), 'of the time', D.gc.all[0] ? `${plural(D.gc.all[0], 'pause')}, longest ${duration(D.gc.all[3])}` : 'no pause'));
  if (D.observer) list.push(tile('Cost of observing', percent(D.observer.cpu / (D.observer.since || 1)), 'of a processor',
    `${bytes(D.observer.memory)}, suspended ${duration(D.observer.stopped)}`));
  return el('div', { class: 'tiles' }, list);
}

function toolbar() {
  if (!TABS.find(tab => tab.id === view.tab).samples || !D.series.length) return [];
  const series = current();
  const segment = (label, options, chosen, choose) => el('div', { class: 'segments', role: 'group', 'aria-label': label },
    options.map(([id, title]) => el('button', { 'aria-pressed': String(id === chosen), onclick: () => { choose(id); view.zoom = view.focus = 0; render(); } }, title)));
  const names = { cpu: 'CPU', wall: 'Wall', exceptions: 'Exceptions', allocations: 'Allocations', locks: 'Locks', threads: 'Threads', threadpool: 'Thread pool', calls: 'Calls', transitions: 'Transitions', jit: 'Compilation', loads: 'Loads' };
  const parts = [segment('Profiler', D.series.map(s => [s.id, names[s.id] || s.id]), view.series, id => { view.series = id; })];
  const threads = [...series.byThread.entries()].filter(([id]) => id >= 0).sort((a, b) => b[1].weight - a[1].weight);
  if (view.thread !== 'all' && !series.byThread.has(Number(view.thread))) view.thread = 'all';
  const select = el('select', { 'aria-label': 'Thread', onchange: () => { view.thread = select.value; view.zoom = view.focus = 0; render(); } },
    el('option', { value: 'all' }, series.folded?.[2] ? 'All threads' : `All ${plural(threads.length, 'thread')}`),
    threads.map(([id, sums]) => el('option', { value: id, selected: String(id) === view.thread }, `${D.threads[id][0]} – ${amount(series, sums.weight)}`)));
  parts.push(select);
  if (view.tab === 'flame') parts.push(segment('Direction', [[false, 'Callees'], [true, 'Callers']], view.callers, callers => { view.callers = callers; }));
  parts.push(search, found);
  if (series.classes.length > 1) parts.push(el('div', { class: 'chips', role: 'group', 'aria-label': typed(series) ? 'Types' : 'States' },
    series.classes.map((name, i) => el('button', {
      'aria-pressed': String(!view.off[series.id].has(i)),
      onclick: () => { const off = view.off[series.id]; if (!off.delete(i)) off.add(i); view.zoom = view.focus = 0; render(); },
    }, swatch(classColor(series, i)), name))));
  return parts;
}

function render() {
  writeHash();
  hideTip();
  redraws = [];
  flame = null;
  const active = document.activeElement, focused = active === search;
  search.value = view.search;
  found.textContent = '';
  const bar = toolbar();
  tools.replaceChildren(...bar);
  tools.hidden = !bar.length;
  for (const button of tabs.children) {
    const chosen = button.dataset.tab === view.tab;
    button.setAttribute('aria-selected', String(chosen));
    button.tabIndex = chosen ? 0 : -1;
  }
  const tab = TABS.find(tab => tab.id === view.tab);
  const made = tab.samples && !D.series.length ? [el('section', { class: 'card empty' }, 'No samples in this recording.')] : tab.make();
  content.replaceChildren(...made.filter(part => part));
  if (focused) search.focus();
}

function redrawAll() {
  redraws.forEach(draw => draw());
  if (flame) flame.refresh();
}

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  try { localStorage.setItem('clrscope-theme', theme); } catch { /* Pages from a file may have no storage. */ }
}

function start() {
  const m = D.meta;
  let theme = null;
  try { theme = localStorage.getItem('clrscope-theme'); } catch { /* as above */ }
  document.documentElement.dataset.theme = theme || (matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light');
  readHash();
  const toggle = el('button', { class: 'plain', 'aria-label': 'Light or dark page', onclick: () => { setTheme(isDark() ? 'light' : 'dark'); render(); } }, '◐');
  const page = el('div', { class: 'page' },
    el('header', {}, el('div', {}, el('div', { class: 'brand' }, `clrscope ${m.tool}`), el('h1', {}, m.process),
      el('div', { class: 'facts' }, [`.NET ${m.runtime}`, m.platform, `pid ${m.pid}`, m.started].map(text => el('span', {}, text)))),
    el('div', { class: 'grow' }), toggle),
    m.warn ? el('p', { class: 'banner', role: 'alert' }, `The recording is incomplete: ${m.ending}.`) : null,
    m.dropped ? el('p', { class: 'banner' }, `${plural(m.dropped, 'sample')} were dropped: ${D.observer.dropped.map(([name, n]) => `${name} ${count(n)}`).join(', ')}.`) : null,
    m.filtered ? el('p', { class: 'banner' }, `Only a part is shown: ${m.filtered}.`) : null,
    tiles(), tabs, tools, content);
  TABS.forEach((tab, i) => tabs.append(el('button', {
    role: 'tab', 'data-tab': tab.id, 'aria-controls': 'content', onclick: () => { view.tab = tab.id; view.rows = 100; render(); },
    onkeydown: event => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!step) return;
      view.tab = TABS[(i + step + TABS.length) % TABS.length].id;
      render();
      tabs.querySelector('[aria-selected="true"]').focus();
    },
  }, tab.title)));
  document.body.append(page, tip);
  addEventListener('resize', redrawAll);
  addEventListener('hashchange', () => { readHash(); render(); });
  addEventListener('keydown', event => {
    if (event.key === '/' && !/INPUT|SELECT|TEXTAREA/.test(document.activeElement.tagName) && tools.contains(search)) { event.preventDefault(); search.focus(); search.select(); }
    if (event.key === 'Escape' && document.activeElement === search) { view.search = search.value = ''; searched(); search.blur(); }
  });
  render();
}

try {
  start();
  document.documentElement.dataset.ready = 'yes';
} catch (error) {
  document.body.append(el('p', { class: 'banner', role: 'alert' }, `This report cannot be drawn here: ${error}`));
  document.documentElement.dataset.ready = 'failed';
  throw error;
}
