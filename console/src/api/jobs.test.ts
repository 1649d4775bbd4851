import { describe, expect, it } from 'vitest'
import { jobFamilies, jobNamed, jobPath } from './jobs'

describe('jobNamed', () => {
  it('knows every kind of job of the contract, and takes nothing else for one', () => {
    for (const kind of jobFamilies) {
      expect(jobNamed(`${kind} 7`, ' ')).toEqual({ kind, id: '7' })
      expect(jobNamed(`${kind}-7-8`, '-')).toEqual({ kind, id: '7-8' })
      expect(jobPath({ kind, id: '7' })).toBe(`/${kind}s/7`)
    }
    expect(jobNamed('an operator', ' ')).toBeUndefined()
    expect(jobNamed('onboarding', ' ')).toBeUndefined()
    expect(jobNamed('', ' ')).toBeUndefined()
  })
})
