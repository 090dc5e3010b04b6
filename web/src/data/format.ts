// Numbers for readers, written as crates/document/src/format.rs writes them.

import type { Unit } from "./document";

/** A number with its thousands apart: `12,345`. */
export function count(number: number): string {
  const text = Math.round(number).toString();
  return text.replace(/\B(?=(\d{3})+(?!\d))/g, ",");
}

/** At least three digits that count, at most two of them behind the point. */
function threeDigits(value: number): string {
  if (value < 9.995) return value.toFixed(2);
  return value < 99.95 ? value.toFixed(1) : value.toFixed(0);
}

/** The nearest whole number; of two, the even one. */
function toEven(value: number): number {
  const floor = Math.floor(value);
  return value - floor === 0.5 ? floor + (floor % 2) : Math.round(value);
}

/** A number of any size in at most eight columns or so: `12.5`, `1,234`, `71.85 M`. */
export function number(value: number): string {
  const size = Math.abs(value);
  if (size >= 1e18) return value.toExponential(2).replace("e+", "e");
  for (const [power, letter] of [[1e15, "P"], [1e12, "T"], [1e9, "G"], [1e6, "M"]] as const) {
    if (size >= power) return `${(value / power).toFixed(2)} ${letter}`;
  }
  if (Number.isInteger(value) || size >= 1000) return signed(count(toEven(size)), value);
  return value.toFixed(size >= 10 ? 1 : size >= 1 ? 2 : 4);
}

function signed(text: string, value: number): string {
  return value < 0 ? `-${text}` : text;
}

/** A duration in the unit that suits it: `853 ns`, `12.3 ms`, `4.56 s`, `2 min 05 s`. */
export function duration(nanos: number): string {
  if (nanos === 0) return "0";
  if (nanos < 1e3) return `${Math.round(nanos)} ns`;
  if (nanos < 1e6) return `${threeDigits(nanos / 1e3)} µs`;
  if (nanos < 1e9) return `${threeDigits(nanos / 1e6)} ms`;
  if (nanos < 120e9) return `${threeDigits(nanos / 1e9)} s`;
  const seconds = Math.floor(nanos / 1e9);
  const two = (value: number) => value.toString().padStart(2, "0");
  const [hours, minutes] = [Math.floor(seconds / 3600), Math.floor(seconds / 60)];
  return hours === 0
    ? `${minutes} min ${two(seconds % 60)} s`
    : `${hours} h ${two(minutes % 60)} min`;
}

/** For how long something runs, in whole units: `45 s`, `12m`, `3h12m`, `4d07h`. */
export function uptime(seconds: number): string {
  const whole = Math.floor(seconds);
  const two = (value: number) => Math.floor(value).toString().padStart(2, "0");
  if (whole < 60) return `${whole}s`;
  if (whole < 3600) return `${Math.floor(whole / 60)}m${two(whole % 60)}s`;
  if (whole < 86400) return `${Math.floor(whole / 3600)}h${two((whole / 60) % 60)}m`;
  return `${Math.floor(whole / 86400)}d${two((whole / 3600) % 24)}h`;
}

/** A size: `512 B`, `1.50 MB` (powers of 1024, as .NET's own tools count). */
export function bytes(size: number): string {
  let value = size;
  let unit = "B";
  for (const next of ["KB", "MB", "GB", "TB", "PB", "EB"]) {
    if (value < 1023.95) break;
    [value, unit] = [value / 1024, next];
  }
  return unit === "B" ? `${Math.round(size)} B` : `${threeDigits(value)} ${unit}`;
}

/** A rate, such as `12.3 /s`. */
export function rate(perSecond: number): string {
  return `${perSecond >= 1000 ? count(perSecond) : threeDigits(perSecond)} /s`;
}

/** A share as percent, with as many digits as tell something. */
export function percent(share: number): string {
  const value = share * 100;
  return `${value > 0 && value < 0.1 ? value.toFixed(2) : value.toFixed(1)} %`;
}

function plus(text: string, value: number): string {
  return `${value < 0 ? "-" : "+"}${text}`;
}

/** A number in its unit. */
export function inUnit(value: number, unit: Unit): string {
  switch (unit) {
    case "count":
      return count(Math.abs(value));
    case "number":
      return number(value);
    case "bytes":
      return bytes(Math.abs(value));
    case "nanoseconds":
      return duration(Math.abs(value));
    case "per-second":
      return rate(value);
    case "share":
      return percent(value);
    case "whole-percent":
      return `${(value * 100).toFixed(0)} %`;
    case "count-change":
      return plus(count(Math.abs(value)), value);
    case "bytes-change":
      return plus(bytes(Math.abs(value)), value);
    case "nanoseconds-change":
      return plus(duration(Math.abs(value)), value);
    case "share-change":
      return plus(percent(Math.abs(value)), value);
    case "change-per-second":
      return plus(rate(Math.abs(value)), value);
  }
}

/** A number in its unit, with half of its 95 % interval where it is an estimate. */
export function quantity(value: number, margin: number | null, unit: Unit): string {
  const shown = inUnit(value, unit);
  if (margin === null) return shown;
  const points = unit === "share" || unit === "whole-percent" || unit === "share-change";
  return `${shown} ± ${points ? (margin * 100).toFixed(1) : inUnit(margin, unit)}`;
}

/** A time on the clock of the reader: `2026-03-01 12:34:56`. */
export function clock(unixMs: number): string {
  const time = new Date(unixMs);
  const two = (value: number) => value.toString().padStart(2, "0");
  const date = [time.getFullYear(), two(time.getMonth() + 1), two(time.getDate())].join("-");
  return `${date} ${[time.getHours(), time.getMinutes(), time.getSeconds()].map(two).join(":")}`;
}

/** `1 sample`, `2 samples`. */
export function counted(number: number, noun: string): string {
  return `${count(number)} ${noun}${number === 1 ? "" : "s"}`;
}

/** Control characters, format characters, and separators of lines and paragraphs. */
const HOSTILE = /[\p{Cc}\p{Cf}\u2028\u2029]/gu;

/**
 * A text in which nothing is invisible: characters that act on what is around them, such as those
 * that change the direction of writing, are written as `\u{202e}`.
 */
export function visible(text: string): string {
  return text.replace(HOSTILE, (letter) => `\\u{${letter.codePointAt(0)?.toString(16)}}`);
}

/** The same of a text of several lines, which keeps line feeds and tabs. */
export function visibleLines(text: string): string {
  return text.replace(HOSTILE, (letter) =>
    letter === "\n" || letter === "\t" ? letter : visible(letter),
  );
}
