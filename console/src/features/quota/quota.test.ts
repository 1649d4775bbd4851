import { describe, expect, it } from 'vitest'
import { asked, draftOf, fullness, measures, share, type Quota } from './quota'

const quota = (q: Partial<Quota>): Quota => ({ quota_id: 'q', org_id: 'acme', used_gpus: 8, used_nodes: 1, updated_at: '', updated_by: '', version: 1, ...q })

it('measures only what is limited; none is a limit, too', () => {
  expect(measures(quota({ gpus: 16 }))).toEqual([{ unit: 'GPUs', used: 8, limit: 16 }])
  expect(measures(quota({ nodes: 0 }))).toEqual([{ unit: 'nodes', used: 1, limit: 0 }])
})

it('says how full it is', () => {
  expect(fullness({ used: 1, limit: 2 })).toBe('ok')
  expect(fullness({ used: 2, limit: 2 })).toBe('warn')
  expect(fullness({ used: 3, limit: 2 })).toBe('bad') // the limit was lowered since
  expect(share({ used: 3, limit: 2 })).toBe(1)
  expect(share({ used: 0, limit: 0 })).toBe(1)
})

describe('draftOf', () => {
  it('leaves out what is empty, and takes 0 for none', () => {
    expect(draftOf('', ' 0 ')).toEqual({ body: { gpus: undefined, nodes: 0 }, wrong: {}, ready: true })
  })
  it('is not ready without a limit, or with a wrong one', () => {
    expect(draftOf('', '').ready).toBe(false)
    for (const wrong of ['-1', '1.5', 'many', '1000001']) expect(draftOf(wrong, '1')).toMatchObject({ ready: false, wrong: { gpus: expect.any(String) as string } })
  })
})

describe('asked', () => {
  const ask = { sku: 'h200', gpus: 16, nodes: 2 }
  it('holds a request to the quotas of its SKU and to those of all', () => {
    const found = asked([quota({ nodes: 4 }), quota({ sku: 'h200', gpus: 20 }), quota({ sku: 'a100', nodes: 0 })], ask)
    expect(found.map((f) => [f.unit, f.used, f.asked, f.limit, f.over])).toEqual([
      ['nodes', 1, 2, 4, false],
      ['GPUs', 8, 16, 20, true],
    ])
  })
  it('does not refuse what asks for none of it', () => {
    expect(asked([quota({ gpus: 4 })], { sku: 'cpu', gpus: 0, nodes: 1 })[0]?.over).toBe(false)
  })
})
