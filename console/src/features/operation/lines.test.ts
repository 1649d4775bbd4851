import { expect, it } from 'vitest'
import { begun, heard, keepLines, logsAddress } from './lines'

const line = (id: string) => ({ id, event: 'line', data: JSON.stringify({ text: `line ${id}` }) })

it('lines are added in their order, and one that is sent again counts once', () => {
  const first = heard(begun, [line('1-1'), line('1-2')])
  const second = heard(first, [line('1-2'), line('1-3')])
  expect(second.lines.map((l) => l.line.text)).toEqual(['line 1-1', 'line 1-2', 'line 1-3'])
  expect(second.dropped).toBe(0)
})

it('only the newest lines are kept, and it is known how many are not', () => {
  const many = heard(begun, Array.from({ length: keepLines + 5 }, (_, i) => line(`1-${i}`)))
  expect(many.lines).toHaveLength(keepLines)
  expect(many.lines[0]?.id).toBe('1-5')
  expect(many.dropped).toBe(5)
})

it('the end and a refusal are said', () => {
  expect(heard(begun, [line('1-1'), { id: '', event: 'end', data: '{"status":"failed"}' }])).toMatchObject({ state: 'ended', ended: 'failed' })
  expect(heard(begun, [{ id: '', event: 'problem', data: '{"title":"No","detail":"it is gone","status":404,"code":"not_found"}' }])).toMatchObject({ state: 'refused' })
})

it('the log is followed from after the last line, with the filters', () => {
  expect(logsAddress({}, 'o1', { step_id: 'check', q: 'a b' }, '3-7')).toBe('/api/v1/admin/operations/o1/logs?follow=true&step_id=check&q=a+b&last_event_id=3-7')
  expect(logsAddress({ projectId: 'p1' }, 'o1', {}, '')).toBe('/api/v1/projects/p1/operations/o1/logs?follow=true')
})
