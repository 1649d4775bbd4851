import { expect, test } from 'vitest'
import { kept } from './kept'

const initial = { name: '', nodes: '1', force: false }

test('what was typed before is there again', () => {
  expect(kept(JSON.stringify({ name: 'a', nodes: '3', force: true }), initial)).toEqual({ name: 'a', nodes: '3', force: true })
  expect(kept(JSON.stringify({ name: 'a' }), initial)).toEqual({ name: 'a', nodes: '1', force: false })
})

test('what a form does not have any more, or has otherwise, is left out', () => {
  expect(kept(JSON.stringify({ name: 7, colour: 'red' }), initial)).toEqual(initial)
  for (const text of [null, '', 'no json', 'null', '[1]', '"words"']) expect(kept(text, initial)).toEqual(initial)
})
