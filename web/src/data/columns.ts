// Answers of a head in JSON and columns of numbers behind it: the columns are used where they are.

export type Numbers = Uint8Array | Uint32Array | Float32Array | Float64Array;

interface Described {
  name: string;
  type: "u8" | "u32" | "f32" | "f64";
  offset: number;
  length: number;
}

const KINDS = { u8: Uint8Array, u32: Uint32Array, f32: Float32Array, f64: Float64Array } as const;

/** What stands for "none" in columns of indexes. */
export const NONE = 0xffffffff;

/** An answer. */
export interface Columns<Head> {
  head: Head;
  /** The column of this name. */
  column(name: string): Numbers;
}

/** Reads an answer. The columns share its memory. */
export function readColumns<Head>(buffer: ArrayBuffer): Columns<Head> {
  const bytes = new Uint8Array(buffer);
  const magic = String.fromCharCode(...bytes.subarray(0, 4));
  if (magic !== "CLRC" || bytes.length < 8) throw new Error("The answer has an unknown form.");
  const length = new DataView(buffer).getUint32(4, true);
  const text = new TextDecoder().decode(bytes.subarray(8, 8 + length));
  const head = JSON.parse(text) as Head & { columns: Described[] };
  const columns = new Map<string, Numbers>();
  for (const { name, type, offset, length: numbers } of head.columns) {
    columns.set(name, new KINDS[type](buffer, 8 + length + offset, numbers));
  }
  return {
    head,
    column(name) {
      const found = columns.get(name);
      if (!found) throw new Error(`The answer has no column ${name}.`);
      return found;
    },
  };
}
