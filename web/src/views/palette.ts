// Colors of frames, states and markers.

/** Hue, saturation and lightness of each kind of frame. */
const KINDS: readonly (readonly [number, number, number])[] = [
  [28, 88, 64], [150, 38, 62], [92, 45, 60], [200, 22, 70], [211, 58, 68],
  [265, 45, 72], [2, 70, 66], [48, 80, 60], [30, 14, 64], [220, 8, 72],
];

const STATES: Record<string, string> = {
  running: "#3f9b5f",
  lock: "#d8504d",
  sleep: "#8c7ae6",
  "I/O": "#3f8fd6",
  "pool idle": "#b6bfca",
  GC: "#e08a2e",
  task: "#c95fb0",
  other: "#7d8896",
  event: "#4fb3a9",
  runtime: "#a0714f",
  "no processor": "#d9b93b",
  throttled: "#8f2d3f",
};

const OTHERS = [
  "#d8504d", "#e08a2e", "#c9a227", "#3f9b5f", "#3f8fd6", "#8c7ae6", "#c95fb0", "#7d8896",
];

/** Colors of markers, by their kind. */
export const MARKERS = ["#e08a2e", "#d8504d", "#8c7ae6", "#3f8fd6"];

export function isDark(): boolean {
  return document.documentElement.dataset["theme"] === "dark";
}

/** From -0.5 to 0.5, the same for the same number. */
function jitter(seed: number): number {
  return (Math.imul(seed, 2654435761) >>> 0) / 4294967296 - 0.5;
}

/** The color of a frame of a kind. Functions of a kind differ a little. */
export function kindColor(kind: number, seed: number): string {
  const [hue, saturation, lightness] = KINDS[kind] ?? KINDS[9]!;
  const own = jitter(seed);
  return isDark()
    ? `hsl(${hue + own * 12} ${saturation * 0.62}% ${lightness * 0.62 + own * 7}%)`
    : `hsl(${hue + own * 12} ${saturation}% ${lightness + 10 + own * 8}%)`;
}

/** The color of a frame by the module that it is from. */
export function moduleColor(module: string | null): string {
  let hash = 5381;
  for (const letter of module ?? "") hash = (Math.imul(hash, 33) ^ letter.codePointAt(0)!) | 0;
  const hue = module === null ? 220 : (hash >>> 0) % 360;
  const saturation = module === null ? 6 : 48;
  return isDark() ? `hsl(${hue} ${saturation * 0.75}% 42%)` : `hsl(${hue} ${saturation}% 74%)`;
}

/** The color of a state, or of another thing that samples are told apart by. */
export function stateColor(title: string, index: number): string {
  return STATES[title] ?? OTHERS[index % OTHERS.length]!;
}

/** Steps of the colors of changes, from all gone to all new: -1 to 1. */
export const CHANGES = [-1, -0.5, -0.2, 0, 0.2, 0.5, 1] as const;

/**
 * The color of a change: blue for less, orange for more, which people with any kind of color
 * blindness tell apart; the paler, the smaller it is. What may be noise is paler still.
 */
export function changeColor(change: number, certain: boolean): string {
  const size = Math.min(Math.abs(change), 1);
  const strength = (size < 0.02 ? 0 : 0.25 + 0.75 * size) * (certain ? 1 : 0.3);
  const [hue, full] = change > 0 ? [26, 88] : [211, 72];
  const [plain, strong] = isDark() ? [27, 40] : [90, 62];
  const lightness = plain + (strong - plain) * strength;
  return `hsl(${hue} ${8 + (full - 8) * strength * (isDark() ? 0.75 : 1)}% ${lightness}%)`;
}

/** The color of objects of a type in cells within cells; that of several types is gray. */
export function typeColor(type: string | undefined, depth: number): string {
  let hash = 5381;
  for (const letter of type ?? "") hash = (Math.imul(hash, 33) ^ letter.codePointAt(0)!) | 0;
  const hue = type === undefined ? 220 : (hash >>> 0) % 360;
  const saturation = type === undefined ? 7 : 46;
  const inner = Math.min(depth, 6) * 1.5;
  return isDark()
    ? `hsl(${hue} ${saturation * 0.7}% ${33 + inner}%)`
    : `hsl(${hue} ${saturation}% ${84 - inner}%)`;
}
