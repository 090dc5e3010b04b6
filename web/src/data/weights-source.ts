// A tree with weights of a document, as samples for a flame graph.

import { boxesOf } from "./boxes";
import { childrenOf, complete, find, foundWeight, type CallTree } from "./calltree";
import { NONE } from "./columns";
import type { Weights } from "./document";
import { matcher } from "./matcher";
import type { BoxQuery, Child, Flame, Fn, Series } from "./source";

/** A tree of a document that is ready to be asked. */
export class WeightsTree {
  readonly series: Series;
  private readonly tree: CallTree;
  private readonly fns: Fn[];
  private readonly places: string[];

  constructor(weights: Weights) {
    const { nodes } = weights;
    const parent = new Int32Array(nodes.length).fill(-1);
    const own = Float64Array.from(nodes, ({ weight }) => weight);
    const above: number[] = [];
    this.places = [];
    const place = new Uint32Array(nodes.length).fill(NONE);
    const known = new Map<string, number>();
    const fn = new Int32Array(nodes.length);
    this.fns = [];
    nodes.forEach((node, index) => {
      above.length = Math.min(node.depth, above.length);
      parent[index] = above.at(-1) ?? -1;
      if (parent[index] >= 0) own[parent[index]]! -= node.weight;
      above.push(index);
      const name = node.forms[0] ?? "";
      const id = known.get(name) ?? known.size;
      if (id === known.size) {
        known.set(name, id);
        const short = node.forms.at(-1) ?? name;
        this.fns.push({ id, name, short, kind: node.kind, module: null });
      }
      fn[index] = id;
      if (node.place === null) return;
      place[index] = this.places.length;
      this.places.push(node.place);
    });
    const shape = { size: nodes.length, parent, fn, place };
    this.tree = complete(shape, own.map((weight) => Math.max(weight, 0)), new Float64Array(nodes.length));
    const unit = weights.unit === "bytes" || weights.unit === "nanoseconds" ? weights.unit : "count";
    this.series = {
      id: "",
      title: "",
      unit,
      noun: "",
      samples: 0,
      weight: this.tree.whole,
      effective: 0,
      calls: false,
      exact: true,
      states: [],
      threads: 0,
    };
  }

  private hits(search: string): Uint8Array | undefined {
    if (search === "") return undefined;
    const finds = matcher(search);
    return find(this.tree, Uint8Array.from(this.fns, ({ name }) => (finds(name) ? 1 : 0)));
  }

  flame({ search, ...query }: BoxQuery): Flame {
    const { tree } = this;
    const hits = this.hits(search);
    const fn = (number: number) => this.fns[number]!;
    const boxes = boxesOf(tree, { ...query, hits, ownSamples: false, fn });
    const total = boxes.root === undefined ? tree.whole : tree.total[boxes.root]!;
    return {
      ...boxes,
      total,
      samples: 0,
      whole: tree.whole,
      effective: 0,
      found: hits ? foundWeight(tree, boxes.root, hits) / (total || 1) : null,
      kinds: [],
      shortened: 0,
      folded: "",
      places: this.places,
      place: boxes.node.map((node) => (node === NONE ? NONE : tree.place[node]!)),
    };
  }

  children(node: number | undefined, rows: number): { count: number; rows: Child[] } {
    const { tree } = this;
    const nodes = childrenOf(tree, node);
    const row = (child: number): Child => ({
      node: child,
      function: this.fns[tree.fn[child]!]!,
      place: this.places[tree.place[child]!] ?? null,
      own: tree.own[child]!,
      total: tree.total[child]!,
      samples: 0,
      children: childrenOf(tree, child).length,
      hit: 0,
    });
    return { count: nodes.length, rows: [...nodes.subarray(0, rows)].map(row) };
  }
}
