import { expect, it } from 'vitest'
import { entriesOf, type Definition } from './definition'

const version = (operation_type: string, version: string, status: Definition['status'] = 'active') => ({ operation_type, version, status, definition_id: `${operation_type}@${version}` }) as Definition

it('versions of a type stand together, by their number, and what is active comes first', () => {
  const entries = entriesOf([version('b.x', 'v1'), version('a.x', 'v2'), version('a.x', 'v11', 'deprecated'), version('a.x', 'v10')])
  expect(entries.map((e) => [e.newest.definition_id, e.versions.map((v) => v.version)])).toEqual([
    ['a.x@v10', ['v10', 'v2', 'v11']],
    ['b.x@v1', ['v1']],
  ])
})
