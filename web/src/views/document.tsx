// Any document: sections of sentences, tables, trees, code and figures. Nothing here knows what it is about.

import { isFacts, type Block, type Document, type Section, type Table } from "../data/document";
import { visible, visibleLines } from "../data/format";
import { CellView, shown } from "./cells";
import { FigureView } from "./figure";
import { More, TableView } from "./table";
import { TreeView } from "./tree";

/**
 * A document. `from`: sections before it are left out. `prefix`: what ids of sections begin with, of
 * several documents of a page.
 */
export function DocumentView(props: { document: Document; from?: number; prefix?: string }) {
  const { document, from = 0, prefix = "s" } = props;
  return (
    <>
      {document.sections.slice(from).map((section, index) => (
        <SectionView key={index} section={section} id={`${prefix}${index + from + 1}`} />
      ))}
    </>
  );
}

/** A section. `id` names it among the sections of a page. */
export function SectionView({ section, id }: { section: Section; id: string }) {
  const level = section.badge === null ? "" : ` level-${section.badge}`;
  return (
    <section class={`card pad${level}`} id={id} aria-labelledby={`${id}-title`}>
      <h2 id={`${id}-title`}>
        {section.badge !== null && <span class="badge">{section.badge}</span>}
        {section.badge !== null && " "}
        {visible(section.title)}
      </h2>
      {section.lead.map((sentence, index) => (
        <p key={index}>{visible(sentence)}</p>
      ))}
      {section.blocks.map((block, index) => (
        <BlockView key={index} block={block} id={`${id}.${index + 1}`} label={section.title} />
      ))}
    </section>
  );
}

function BlockView({ block, id, label }: { block: Block; id: string; label: string }) {
  if ("code" in block) {
    return (
      <pre class="code" tabIndex={0} role="group" aria-label={`${label}: code`}>
        {visibleLines(block.code.text)}
      </pre>
    );
  }
  if ("figure" in block) return <FigureView figure={block.figure} />;
  if ("tree" in block) return <TreeView tree={block.tree} label={visible(label)} />;
  if (isFacts(block.table)) return <Facts table={block.table} />;
  return <TableView table={block.table} id={id} label={visible(label)} />;
}

/** Names, and what is to be said of each. A fact without a name continues the one before. */
function Facts({ table }: { table: Table }) {
  const groups: { name: string; facts: Table["rows"] }[] = [];
  for (const [name, ...facts] of table.rows) {
    const text = name === undefined ? "" : shown(name);
    const last = groups.at(-1);
    if (text === "" && last) last.facts.push(facts);
    else groups.push({ name: text, facts: [facts] });
  }
  return (
    <>
      <dl class="facts">
        {groups.map((group, index) => (
          <div key={index}>
            <dt>{visible(group.name)}</dt>
            {group.facts.map((cells, at) => (
              <dd key={at}>
                {cells.map((cell, number) => (
                  <span key={number}>
                    {number > 0 && " "}
                    <CellView cell={cell} />
                  </span>
                ))}
              </dd>
            ))}
          </div>
        ))}
      </dl>
      <More of={table.more} />
    </>
  );
}
