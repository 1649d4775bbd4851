import { describe, expect, it } from 'vitest'
import { caughtUp, halls, patched, placeOf, shared, type Spot } from './racks'

function spot(hostname: string, change: Partial<Spot> = {}): Spot {
  return { node_id: `id-${hostname}`, hostname, status: 'active', drift_state: 'in_sync', schedulable: true, region_code: 'eu-1', site_id: 's1', ...change }
}

const site = { site_id: 's1', name: 'berlin', region_code: 'eu-1' }

describe('placeOf', () => {
  it('reads rack and slot of a hostname', () => {
    expect(placeOf('c07u31')).toMatchObject({ rack: 'c07', slot: 31 })
    expect(placeOf('c07-u31.example.net')).toMatchObject({ rack: 'c07', slot: 31 })
    expect(placeOf('C12U03')).toMatchObject({ rack: 'C12', slot: 3 })
  })

  it('takes runs of numbers in groups', () => {
    expect(placeOf('gpu-00001').rack).toBe(placeOf('gpu-00048').rack)
    expect(placeOf('gpu-00048').rack).not.toBe(placeOf('gpu-00049').rack)
    expect(placeOf('gpu-00049').label).toBe('gpu-00049–00096')
    expect(placeOf('gpu-0').rack).toBe(placeOf('gpu-1').rack)
  })

  it('has a place for names that say nothing', () => {
    expect(placeOf('minerva').label).toBe('others')
  })
})

describe('halls', () => {
  it('groups by site and rack, and sorts by slot', () => {
    const [hall] = halls([spot('c10u02'), spot('c9u10'), spot('c9u2')], [site])
    expect(hall?.site?.name).toBe('berlin')
    expect(hall?.racks.map((r) => r.label)).toEqual(['c9', 'c10'])
    expect(hall?.racks[0]?.spots.map((s) => s.hostname)).toEqual(['c9u2', 'c9u10'])
    expect(hall?.total).toBe(3)
  })

  it('keeps nodes of no site apart, after the sites, and shows empty sites', () => {
    const out = halls([spot('lone', { site_id: undefined }), spot('c1u1')], [site, { site_id: 's2', name: 'hanover', region_code: 'eu-1' }])
    expect(out.map((h) => [h.site?.name, h.total])).toEqual([
      ['berlin', 1],
      ['hanover', 0],
      [undefined, 1],
    ])
  })

  it('loses no node of ten thousand', () => {
    const many = Array.from({ length: 10_000 }, (_, i) => spot(`gpu-${String(i + 1).padStart(5, '0')}`))
    const [hall] = halls(many, [site])
    expect(hall?.racks.reduce((n, r) => n + r.spots.length, 0)).toBe(10_000)
    expect(hall?.racks).toHaveLength(Math.ceil(10_000 / 48))
  })
})

describe('shared', () => {
  it('is what all hostnames begin with', () => {
    expect(shared({ key: '', label: '', spots: [spot('c07u1'), spot('c07u31')] })).toBe('c07u')
    expect(shared({ key: '', label: '', spots: [spot('c07u1')] })).toBe('c07u1')
    expect(shared({ key: '', label: '', spots: [spot('ada'), spot('bob')] })).toBe('')
  })
})

describe('patched', () => {
  const spots = [spot('a1'), spot('a2')]
  it('takes over what events say', () => {
    const out = patched(spots, [{ node_id: 'id-a2', status: 'offline', schedulable: false }])
    expect(out?.map((s) => s.status)).toEqual(['active', 'offline'])
    expect(out?.[0]).toBe(spots[0])
    expect(patched(spots, [{ node_id: 'id-a1', status: 'deleted', schedulable: false }])).toHaveLength(1)
  })

  it('asks for a new map when a node is not on it', () => {
    expect(patched(spots, [{ node_id: 'new', status: 'active', schedulable: true }])).toBeUndefined()
  })
})

describe('caughtUp', () => {
  const spots = [spot('a1'), spot('a2')]
  const offline = (id: string) => ({ node_id: id, status: 'offline' as const, schedulable: false })

  it('keeps what events said since the reading began', () => {
    const out = caughtUp(spots, [{ at: 5, change: offline('id-a1') }, { at: 20, change: offline('id-a2') }], 10)
    expect(out.map((s) => s.status)).toEqual(['active', 'offline'])
  })

  it('passes over nodes that the map does not know', () => {
    const out = caughtUp(spots, [{ at: 20, change: offline('new') }, { at: 21, change: offline('id-a1') }], 10)
    expect(out.map((s) => s.status)).toEqual(['offline', 'active'])
    expect(caughtUp(spots, [{ at: 5, change: offline('id-a1') }], 10)).toBe(spots)
  })
})
