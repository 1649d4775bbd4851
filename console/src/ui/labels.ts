/** readLabels reads labels that are typed as KEY=VALUE, one a line or with commas between; those that are none are wrong. */
export function readLabels(text: string): { labels: Record<string, string>; wrong?: string } {
  const labels: Record<string, string> = {}
  for (const typed of text.split(/[\n,]/).map((t) => t.trim()).filter(Boolean)) {
    const at = typed.indexOf('=')
    const key = typed.slice(0, at).trim()
    if (at < 1 || key === '') return { labels: {}, wrong: `“${typed}” is not a label. Write KEY=VALUE.` }
    if (key in labels) return { labels: {}, wrong: `${key} appears twice. Remove one.` }
    labels[key] = typed.slice(at + 1).trim()
  }
  return { labels }
}

/** given is labels, or undefined where there is none. */
export const given = (labels: Record<string, string>) => (Object.keys(labels).length > 0 ? labels : undefined)

/** writeLabels writes labels so that readLabels reads them. */
export const writeLabels = (labels: Record<string, string>) =>
  Object.entries(labels)
    .map(([k, v]) => `${k}=${v}`)
    .join(', ')
