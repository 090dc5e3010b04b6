// Source lines of a method with their sums, and their text if the reader chooses the file.

import { useEffect, useState } from "preact/hooks";
import { bytes, counted, percent, visible, visibleLines } from "../data/format";
import { useRounds } from "../data/query";
import type { LineRow, Lines, Selection, Series, Source } from "../data/source";
import { fileOf } from "./calls";
import { Share } from "./functions";
import { More } from "./more";
import { keyOf } from "./samples-flame";
import { amount } from "./weights";

/** Rows that are shown at first, and that a click adds. */
const STEP = 200;

/** Bytes of a source file that is read. */
const MOST_BYTES = 2 * 1024 * 1024;

export interface LinesProps {
  source: Source;
  selection: Selection;
  series: Series;
  /** With another one, the same is asked again. */
  round?: number | undefined;
  /** The method. */
  of: number;
}

/** The text of a file that the reader chose. */
interface Text {
  name: string;
  lines: string[];
}

export function LinesView(props: LinesProps) {
  const { source, selection, series, round, of } = props;
  const [most, setMost] = useState(STEP);
  const [texts, setTexts] = useState<ReadonlyMap<string, Text>>(new Map());
  const [problem, setProblem] = useState("");
  // Files of another method are others.
  useEffect(() => {
    setTexts(new Map());
    setProblem("");
  }, [of]);
  const key = `lines ${source.id} ${keyOf(selection)} ${of} ${most}`;
  const query = useRounds(key, round, async (signal) =>
    source.lines?.({ selection, of, rows: most }, signal),
  );
  const found = query.data;
  const choose = async (path: string, file: File | undefined) => {
    if (!file) return;
    if (file.size > MOST_BYTES) {
      setProblem(`${file.name} has ${bytes(file.size)}: at most ${bytes(MOST_BYTES)} are read.`);
      return;
    }
    const lines = (await file.text()).split(/\r\n|\n|\r/);
    setProblem("");
    setTexts((before) => new Map(before).set(path, { name: file.name, lines }));
  };
  if (query.problem) {
    return (
      <p class="banner bad" role="alert">
        {visible(query.problem.reason)} {query.problem.next}
      </p>
    );
  }
  if (!found) return <p class="hint">Reading the lines…</p>;
  if (found.files.length === 0) {
    return (
      <p class="hint">
        No line of this method is known. Lines come from PDB files: keep them beside the assemblies
        while you record.
      </p>
    );
  }
  return (
    <>
      {found.files.map((path, index) => (
        <FileLines
          key={path}
          {...{ found, series, path }}
          rows={found.rows.filter((row) => row.file === index)}
          text={texts.get(path)}
          choose={(file) => void choose(path, file)}
        />
      ))}
      <Unknown {...{ found, series }} />
      {problem !== "" && <p class="banner bad" role="alert">{visible(problem)}</p>}
      <More shown={found.rows.length} all={found.count} what="line" most={most} setMost={setMost} />
    </>
  );
}

interface FileProps {
  found: Lines;
  series: Series;
  path: string;
  rows: LineRow[];
  text: Text | undefined;
  choose: (file: File | undefined) => void;
}

function FileLines({ found, series, path, rows, text, choose }: FileProps) {
  return (
    <>
      <div class="titled">
        <h3>
          <code class="name">{visible(path)}</code>
        </h3>
        <label class="file">
          {text ? `Text of ${visible(text.name)}` : `Show the text: choose ${visible(fileOf(path))}`}{" "}
          <input type="file" onChange={(event) => choose(event.currentTarget.files?.[0])} />
        </label>
      </div>
      <div class="scroll" tabIndex={0} role="group" aria-label={`Lines of ${visible(path)}`}>
        <table class="data lines">
          <thead>
            <tr>
              <th scope="col" class="n">
                Line
              </th>
              <th scope="col" class="n" colSpan={2}>
                Self
              </th>
              <td />
              <th scope="col" class="n" colSpan={2}>
                Total
              </th>
              {text && <th scope="col">Source</th>}
            </tr>
          </thead>
          <tbody>
            {rows.map((row) => (
              <Line key={row.line} {...{ row, found, series, text }} />
            ))}
          </tbody>
        </table>
      </div>
    </>
  );
}

interface LineProps {
  row: LineRow;
  found: Lines;
  series: Series;
  text: Text | undefined;
}

function Line({ row, found, series, text }: LineProps) {
  const [own, total] = [row.own / (found.whole || 1), row.total / (found.whole || 1)];
  // Bars are of the method, so that its lines differ.
  const bar = (weight: number) => `${(weight / (found.total || 1)) * 100}%`;
  const share = (part: number) => <Share {...{ part, series }} effective={found.effective} />;
  return (
    <tr>
      <td class="n">{row.line}</td>
      <td class="n">{share(own)}</td>
      <td class="n">{amount(series, row.own)}</td>
      <td>
        <span class="bar" aria-hidden="true">
          <i class="total" style={{ width: bar(row.total) }} />
          <i style={{ width: bar(row.own) }} />
        </span>
      </td>
      <td class="n">{share(total)}</td>
      <td class="n">{amount(series, row.total)}</td>
      {text && (
        <td class="source">
          <code>{visibleLines(text.lines[(row.line ?? 0) - 1] ?? "")}</code>
        </td>
      )}
    </tr>
  );
}

/** What has no line. */
function Unknown({ found, series }: { found: Lines; series: Series }) {
  const row = found.rows.find((row) => row.line === null);
  if (!row) return null;
  return (
    <p class="hint">
      Without a line: self {percent(row.own / (found.whole || 1))} ({amount(series, row.own)}), total{" "}
      {percent(row.total / (found.whole || 1))} ({amount(series, row.total)})
      {series.calls && ` in ${counted(row.own_samples, "call")}`}.
    </p>
  );
}
