import { expect, it } from 'vitest'
import { given, readLabels, writeLabels } from './labels'

it('reads labels, one a line or with commas', () => {
  expect(readLabels('public/tier=fast, disk = nvme\nempty=\n')).toEqual({ labels: { 'public/tier': 'fast', disk: 'nvme', empty: '' } })
  expect(readLabels(' ')).toEqual({ labels: {} })
  expect(given({})).toBeUndefined()
})

it('says what is none', () => {
  expect(readLabels('fast').wrong).toContain('fast')
  expect(readLabels('=fast').wrong).toBeTruthy()
  expect(readLabels('a=1,a=2').wrong).toContain('twice')
})

it('reads what it writes', () => {
  const labels = { 'public/tier': 'fast', expr: 'a=b' }
  expect(readLabels(writeLabels(labels))).toEqual({ labels })
})
