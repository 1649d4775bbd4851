/** kept is what was kept of an object before: the fields that it still has, of the type that they still are. */
export function kept<T extends object>(text: string | null, initial: T): T {
  if (!text) return initial
  let found: unknown
  try {
    found = JSON.parse(text)
  } catch {
    return initial // whoever wrote it, it was not this form
  }
  if (typeof found !== 'object' || found === null) return initial
  const before = new Map(Object.entries(initial))
  return { ...initial, ...Object.fromEntries(Object.entries(found).filter(([name, value]) => before.has(name) && typeof value === typeof before.get(name))) }
}
