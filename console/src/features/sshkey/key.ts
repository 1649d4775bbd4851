/**
 * wrongKey says what cannot be sent as a public key: above all a private one, which
 * must not leave this machine. Whether the rest is a key, the control plane decides.
 */
export function wrongKey(text: string): string | undefined {
  if (text.includes('PRIVATE KEY')) return 'This is a private key: it was not sent. Paste the file that ends with .pub.'
  if (text.trim().includes('\n')) return 'A public key is one line: add each key on its own.'
  return undefined
}
