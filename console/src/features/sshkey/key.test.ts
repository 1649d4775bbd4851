import { expect, it } from 'vitest'
import { wrongKey } from './key'

it('keeps a private key on this machine', () => {
  expect(wrongKey('-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA')).toContain('private key')
  expect(wrongKey('-----BEGIN RSA PRIVATE KEY-----')).toContain('.pub')
})

it('takes one line, with or without an end', () => {
  expect(wrongKey('ssh-ed25519 AAAA me@laptop\n')).toBeUndefined()
  expect(wrongKey('')).toBeUndefined()
  expect(wrongKey('ssh-ed25519 AAAA\nssh-ed25519 BBBB')).toContain('one line')
})
