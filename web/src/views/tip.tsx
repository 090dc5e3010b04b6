// What the pointer is on, beside it.

import { useLayoutEffect, useRef } from "preact/hooks";
import { visible } from "../data/format";

export interface Tip {
  x: number;
  y: number;
  title: string;
  where: string[];
  rows: [string, string][];
}

/** The tip, or nothing. Readers of the screen hear the same from the treegrid. */
export function TipView({ tip }: { tip: Tip | undefined }) {
  const element = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    const box = element.current;
    if (!box || !tip) return;
    const { width, height } = box.getBoundingClientRect();
    const left = tip.x + 14 + width > innerWidth ? Math.max(6, tip.x - width - 10) : tip.x + 14;
    const top = tip.y + 16 + height > innerHeight ? Math.max(6, tip.y - height - 10) : tip.y + 16;
    box.style.left = `${left}px`;
    box.style.top = `${top}px`;
  }, [tip]);
  if (!tip) return null;
  return (
    <div class="tip" role="presentation" ref={element}>
      {tip.title !== "" && <div class="tip-name">{visible(tip.title)}</div>}
      {tip.where.length > 0 && <div class="where">{visible(tip.where.join(" · "))}</div>}
      <table>
        <tbody>
          {tip.rows.map(([name, value], index) => (
            <tr key={index}>
              <td>{name}</td>
              <td>{visible(value)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
