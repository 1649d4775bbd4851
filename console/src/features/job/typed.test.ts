import { expect, it } from 'vitest'
import { textFor } from './typed'

it('does not take what was typed for one thing as said of another', () => {
  const typed = { subject: 'reimage c07', text: 'reimage 1 node' }
  expect(textFor(typed, 'reimage c07')).toBe('reimage 1 node')
  expect(textFor(typed, 'reimage c')).toBe('')
  expect(textFor(undefined, 'reimage c')).toBe('')
})
