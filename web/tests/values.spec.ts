// The same numbers as those that crates/document/src/format.rs asserts.

import { expect, test } from "@playwright/test";
import { bytes, count, duration, number, percent, quantity, rate, visible } from "../src/data/format";
import { parseSelection, writeSelection } from "../src/data/selection";

test("numbers are written as in reports", () => {
  const numbers: [number, string][] = [
    [0, "0"],
    [-3, "-3"],
    [0.01234, "0.0123"],
    [7.254, "7.25"],
    [12.34, "12.3"],
    [1234.5, "1,234"],
    [-99_999, "-99,999"],
    [71_853_684, "71.85 M"],
    [2.5e13, "25.00 T"],
    [1e300, "1.00e300"],
  ];
  for (const [value, text] of numbers) expect(number(value)).toBe(text);
  const durations = [0, 853, 1e3, 12_345_678, 999_600_000, 4_560_000_000, 125e9, 7500e9];
  expect(durations.map(duration)).toEqual([
    "0", "853 ns", "1.00 µs", "12.3 ms", "1000 ms", "4.56 s", "2 min 05 s", "2 h 05 min",
  ]);
  expect([0, 512, 1536, 1 << 20, 2 ** 64].map(bytes)).toEqual([
    "0 B", "512 B", "1.50 KB", "1.00 MB", "16.0 EB",
  ]);
  expect([0, 999, 1000, 1_234_567].map(count)).toEqual(["0", "999", "1,000", "1,234,567"]);
  expect([0, 0.0003, 0.012, 0.5, 1].map(percent)).toEqual([
    "0.0 %", "0.03 %", "1.2 %", "50.0 %", "100.0 %",
  ]);
  expect(rate(190_000.4)).toBe("190,000 /s");
  expect(quantity(0.452, 0.031, "share")).toBe("45.2 % ± 3.1");
  expect(quantity(-1.5 * 2 ** 20, null, "bytes-change")).toBe("-1.50 MB");
  expect(quantity(-12.3e6, null, "nanoseconds-change")).toBe("-12.3 ms");
  expect(quantity(0.123, 0.02, "share-change")).toBe("+12.3 % ± 2.0");
});

test("what is invisible in names is shown", () => {
  expect(visible("a\u202eb\u0007\u{e0001}")).toBe("a\\u{202e}b\\u{7}\\u{e0001}");
});

test("profilers are written as on the command line", () => {
  for (const text of ["", "cpu", "cpu,wall:rate=50", "calls:filter=A.*=b:depth=3"]) {
    expect(writeSelection(parseSelection(text))).toBe(text);
  }
});
