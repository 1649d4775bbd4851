import { expect, it } from 'vitest'
import { money } from '../../ui/money'
import { announced, byWhom, called, hourly, isOver, keysChanged, lifeOf, mayAgree, mayDecline, mayEnd, receiptFile, ssh, whyNot } from './allocation'

it('knows what can be given back', () => {
  expect((['requested', 'provisioning', 'active', 'release_failed'] as const).every((status) => mayEnd({ status }))).toBe(true)
  expect((['releasing', 'released', 'failed'] as const).some((status) => mayEnd({ status }))).toBe(false)
  expect(isOver({ status: 'failed' })).toBe(true)
  expect(isOver({ status: 'release_failed' })).toBe(false)
})

it('says what an hour costs', () => {
  expect(money(hourly(350, 8, 2), 'USD')).toBe('56.00 USD')
  expect(hourly(350, 0)).toBe(350) // a machine without GPUs is not free
})

it('names an allocation, or its node', () => {
  expect(called({ name: 'train', hostname: 'gpu-1' })).toBe('train')
  expect(called({ hostname: 'gpu-1' })).toBe('gpu-1')
})

it('says why there is not more', () => {
  const filters = [
    { reason: 'rented', text: 'are rented', before: 40, after: 9 },
    { reason: 'silent', text: 'were not heard of', before: 9, after: 9 },
  ]
  expect(whyNot({ filters })).toEqual(['31 are rented'])
})

it('says how to log in, where there is an address', () => {
  expect(ssh({ username: 'u1', host: '10.0.0.4', port: 22 })).toBe('ssh u1@10.0.0.4')
  expect(ssh({ username: 'u1', host: '10.0.0.4', port: 2222 })).toBe('ssh -p 2222 u1@10.0.0.4')
  expect(ssh({ username: 'u1' })).toBeUndefined()
})

it('reads hours', () => {
  expect(lifeOf(' ')).toEqual({})
  expect(lifeOf('1.5')).toEqual({ seconds: 5400 })
  for (const wrong of ['0', '-1', 'soon', '9000']) expect(lifeOf(wrong).wrong).toBeTruthy()
})

it('names the files of receipts after their node', () => {
  expect(receiptFile({ hostname: 'gpu/1' }, { moment: 'handover' })).toBe('gpu_1-handover.json')
})

it('names people, and no workflows', () => {
  expect(byWhom({ actor_kind: 'user', actor: 'Tess' })).toBe('Tess')
  expect(byWhom({ actor_kind: 'system', actor: 'workflow:provisioning-1' })).toBe('control plane')
})

it('says what maintenance does, and what can be answered', () => {
  expect(announced({ kind: 'release', status: 'announced', consent_asked: false })).toBe('The allocation ends')
  expect(announced({ kind: 'reboot', status: 'announced', consent_asked: true })).toBe('You are asked to agree. The node restarts')
  expect(announced({ kind: 'pause', status: 'consented', consent_asked: true })).toBe('You agreed. The node is away for a while')
  expect(mayDecline({ status: 'announced', consent_asked: false })).toBe(false)
  expect(mayDecline({ status: 'announced', consent_asked: true })).toBe(true)
  expect(mayAgree({ status: 'under_way' })).toBe(false)
})

it('sends of keys only what differs', () => {
  expect(keysChanged(['a', 'b'], ['b', 'c'])).toEqual({ add: ['c'], remove: ['a'] })
  expect(keysChanged(['a'], ['a'])).toEqual({ add: [], remove: [] })
})
