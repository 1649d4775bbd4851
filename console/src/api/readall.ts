type List<T> = { items: T[]; next_cursor?: string }

/** What was read, and when the reading began: what happened since is not in it. */
export type Reading<T> = { from: number; rows: T[] }

export const largestPage = 200

/** readAll reads a list to its end. */
export async function readAll<T>(read: (cursor: string | undefined) => Promise<List<T>>): Promise<Reading<T>> {
  const from = performance.now()
  const rows: T[] = []
  let cursor: string | undefined
  do {
    const page = await read(cursor)
    rows.push(...page.items)
    cursor = page.next_cursor || undefined
  } while (cursor)
  return { from, rows }
}
