import { describe, expect, it } from 'vitest'
import { about, families, gist, leadsTo } from './feed'

describe('about', () => {
  it('prefers the name that people know', () => {
    expect(about({ node_id: 'n', hostname: 'c07u31', name: 'x' })).toBe('c07u31')
    expect(about({ node_id: 'n' })).toBe('n')
    expect(about({ hostname: '' })).toBe('')
  })
  it('takes anything', () => {
    for (const payload of [null, undefined, 7, 'x', [{ hostname: 'c' }]]) expect(about(payload)).toBe('')
  })
})

describe('gist', () => {
  it('tells what happened', () => {
    expect(gist({ stage: 'deploy', status: 'running', failure_class: '', attempt: 2 })).toBe('stage deploy, status running')
  })
})

describe('leadsTo', () => {
  it('leads to what is named, and only to that', () => {
    expect(leadsTo({ node_id: 'n1', decommission_id: 'd1', site_id: '' })).toEqual([
      { title: 'Node', to: '/nodes/n1' },
      { title: 'Decommission', to: '/decommissions/d1' },
    ])
    expect(leadsTo('text')).toEqual([])
  })
})

describe('families', () => {
  it('is what types begin with, once each', () => {
    expect(families(['node.onboarding.stage', 'node.updated', 'node.onboarding.failed', 'odd'])).toEqual(['node.', 'node.onboarding.'])
  })
})
