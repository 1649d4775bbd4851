import { expect, test, vi } from 'vitest'
import { chips, named } from './filters'

test('a choice is called as where it is chosen', () => {
  expect(named(['failed_retryable', { value: 's1', label: 'lab' }], 's1')).toBe('lab')
  expect(named(['failed_retryable'], 'failed_retryable')).toBe('failed retryable')
  expect(named([], 'c07')).toBe('c07')
})

test('what is set has a chip that takes it away, and nothing else has', () => {
  const change = vi.fn()
  const active = chips({ q: 'c07', site: 's1', status: '', sort: 'hostname' }, change, [
    { key: 'q', label: 'Search' },
    { key: 'status', label: 'State' },
    { key: 'site', label: 'Site', options: [{ value: 's1', label: 'lab' }] },
  ])
  expect(active.map((c) => `${c.label} ${c.value}`)).toEqual(['Search c07', 'Site lab'])
  active[1]?.onClear()
  expect(change).toHaveBeenCalledExactlyOnceWith({ site: undefined })
})
