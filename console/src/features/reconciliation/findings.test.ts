import { describe, expect, it } from 'vitest'
import { actionOf, choicesFor, ordinal, outcomeOf, resolutionIn, subjectOf } from './findings'

describe('actionOf', () => {
  it.each([
    [{ status: 'confirmed' }, 'No automatic action.'],
    [{ status: 'open', action: 'quarantine' }, 'gpuaas will quarantine the node if another check shows the same.'],
    [{ status: 'confirmed', action: 'quarantine', withheld: 'the breaker is open' }, 'Not done: gpuaas would quarantine the node, but the breaker is open'],
    [{ status: 'acted', action: 'mark_offline', acted_at: '2026-01-01T00:00:00Z' }, 'The node was marked offline'],
    [{ status: 'acted', action: 'update_host', acted_at: '2026-01-01T00:00:00Z', action_note: 'now 10.0.0.2' }, 'The new address was adopted: now 10.0.0.2'],
    [{ status: 'closed', action: 'quarantine' }, 'It closed before any action was taken.'],
  ] as const)('%o', (finding, text) => expect(actionOf(finding).text).toBe(text))

  it('knows that what was withheld at first may have been done since', () => {
    expect(actionOf({ status: 'acted', action: 'quarantine', withheld: 'the breaker is open', acted_at: '2026-01-01T00:00:00Z' }).tone).toBe('ok')
  })
})

describe('subjectOf', () => {
  it('prefers the name that people know', () => {
    expect(subjectOf({ hostname: 'c07u31', maas_system_id: 'x7k2ab', site_name: 'dc1' })).toBe('c07u31')
    expect(subjectOf({ maas_system_id: 'x7k2ab', site_name: 'dc1' })).toBe('machine x7k2ab')
    expect(subjectOf({ site_name: 'dc1' })).toBe('site dc1')
  })
})

describe('ordinal', () => {
  it.each([
    [1, '1st'],
    [2, '2nd'],
    [3, '3rd'],
    [4, '4th'],
    [11, '11th'],
    [12, '12th'],
    [13, '13th'],
    [22, '22nd'],
    [111, '111th'],
  ])('%i is %s', (n, text) => expect(ordinal(n)).toBe(text))
})

describe('resolutionIn', () => {
  it('reads the decision from the command that stands for it', () => {
    expect(resolutionIn('gpuaas drift resolve c07u31 return-to-service')).toBe('return_to_service')
    expect(resolutionIn('gpuaas drift resolve c07u31 adopt')).toBe('adopt_observed')
    expect(resolutionIn('gpuaas drift show c07u31')).toBeUndefined()
    expect(resolutionIn('gpuaas drift resolve c07u31 explode')).toBeUndefined()
  })
})

describe('choicesFor', () => {
  const off = { type: 'powered_off' }
  const open = (node: Parameters<typeof choicesFor>[0]) =>
    choicesFor(node)
      .filter((c) => !c.barred)
      .map((c) => c.resolution)

  it('offers what the state of the node allows', () => {
    expect(open({ node_status: 'active', findings: [off] })).toEqual(['acknowledge', 'adopt_observed', 'quarantine', 'reimage'])
    expect(open({ node_status: 'quarantined', findings: [off] })).toEqual(['acknowledge', 'adopt_observed', 'return_to_service', 'reimage'])
    expect(open({ node_status: 'quarantined', findings: [] })).toEqual(['return_to_service', 'reimage'])
    expect(open({ node_status: 'retired', findings: [off] })).toEqual(['acknowledge', 'adopt_observed', 'reimage'])
  })

  it('leaves a node to the job that works on it', () => {
    expect(open({ node_status: 'active', findings: [off], held_by: 'onboarding 7' })).toEqual(['acknowledge', 'quarantine'])
  })

  it('says that a machine which somebody else released must be adopted', () => {
    const does = (type: string) => choicesFor({ node_status: 'quarantined', findings: [{ type }] }).find((c) => c.resolution === 'reimage')?.does
    expect(does('released')).toContain('adopt the machine as it is')
    expect(does('powered_off')).not.toContain('adopt')
  })

  it('marks what destroys', () => {
    expect(
      choicesFor({ node_status: 'active', findings: [off] })
        .filter((c) => c.destroys)
        .map((c) => c.resolution),
    ).toEqual(['reimage'])
  })
})

describe('outcomeOf', () => {
  it('does not take a run that lasts for one that ended', () => {
    expect(outcomeOf({}).text).toBe('waiting to start')
    expect(outcomeOf({ began_at: '2026-01-01T00:00:00Z' }).text).toBe('running')
    expect(outcomeOf({ outcome: 'refused', ended_at: '2026-01-01T00:00:00Z' })).toEqual({ tone: 'warn', text: 'refused' })
  })
})
