import { expect, it } from 'vitest'
import { pages } from '../../e2e/pages'
import { features } from './registry'

it('every page is visited in a browser, where its accessibility and its width are checked', () => {
  const visited = new Set(pages.map((p) => p.path.split('?')[0]))
  const missing = features.flatMap((f) => f.routes.map((r) => r.path)).filter((path) => !visited.has(path))
  expect(missing, 'add them to e2e/pages.ts').toEqual([])
})
