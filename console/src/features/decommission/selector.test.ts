import { describe, expect, it } from 'vitest'
import { destroys, mayDestroy } from './modes'
import { asWords, beyondSelector, chosenFrom, selectorOf } from './selector'

describe('selector', () => {
  it('takes the filters of the list of nodes', () => {
    const chosen = chosenFrom({ new: '1', hostname_prefix: 'C07', site_id: 's1', sku: 'h200', status: 'active,failed,offline', node_ids: 'a, b' })
    expect(selectorOf(chosen)).toEqual({ hostname_prefix: 'c07', site_id: 's1', sku_id: 'h200', statuses: ['active', 'offline'], node_ids: ['a', 'b'] })
  })
  it('is none while nothing is chosen', () => {
    expect(selectorOf(chosenFrom({ new: '1', status: 'failed' }))).toBeUndefined()
  })
  it('cannot say everything that a list of nodes is narrowed by', () => {
    expect(beyondSelector({ new: '1', site_id: 's1', status: 'active' })).toBe(false)
    expect(beyondSelector({ q: '07' })).toBe(true)
    expect(beyondSelector({ schedulable: 'false' })).toBe(true)
    expect(beyondSelector({ drift_state: 'unknown' })).toBe(true)
    for (const by of [{ agent: 'drift' }, { held: 'true' }, { tainted: 'false' }]) expect(beyondSelector(by)).toBe(true)
  })
  it('is said in words', () => {
    expect(asWords({ site_id: 's1', statuses: ['active', 'bootstrap_issued'] }, () => 'lab')).toBe('site lab, state active or bootstrap issued')
    expect(asWords({ node_ids: ['a'] }, () => '')).toBe('1 named node')
  })
})

it('asks for a typed confirmation where something is lost for good', () => {
  expect(destroys(['DESTROYS the installation: MAAS releases the machine'])).toBe(true)
  expect(destroys(['the agent is uninstalled and the node leaves the inventory for good'])).toBe(true)
  expect(destroys(['nothing is destroyed: the node is proven clean'])).toBe(false)
  expect(mayDestroy('drain', { erase: 'none', cleanup: 'local' })).toBe(false)
  expect(mayDestroy('storage_cleanup', { erase: 'none', cleanup: 'weka' })).toBe(false)
  expect(mayDestroy('storage_cleanup', { erase: 'none', cleanup: 'local' })).toBe(true)
  expect(mayDestroy('reactivate', { erase: 'none', cleanup: 'none' })).toBe(true)
})
