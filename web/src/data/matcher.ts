// Searches in names, for pages that have no server.

/** Tells which functions a search finds. `/…/` is a regular expression. */
export function matcher(search: string): (name: string) => boolean {
  const expression = /^\/(.+)\/$/.exec(search);
  if (!expression) {
    const text = search.toLowerCase();
    return (name) => name.toLowerCase().includes(text);
  }
  try {
    const regular = new RegExp(expression[1]!, "i");
    return (name) => regular.test(name);
  } catch {
    return () => false;
  }
}
