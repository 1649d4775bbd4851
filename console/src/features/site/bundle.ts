/** mostBytes is the size of the largest bundle. */
export const mostBytes = 1 << 20

const named = /^[a-z0-9][a-z0-9._-]{0,62}@[A-Za-z0-9][A-Za-z0-9._+-]{0,63}$/

/** wrongRef says what is wrong with the name and version of a bundle. */
export function wrongRef(ref: string): string | undefined {
  return named.test(ref) ? undefined : 'NAME@VERSION, such as site-setup@2: letters, digits, dots, hyphens and underscores.'
}

/** wrongSize says what is wrong with a file as a bundle. */
export function wrongSize(size: number): string | undefined {
  if (size === 0) return 'The file is empty.'
  return size > mostBytes ? 'The file is larger than 1 MiB.' : undefined
}

/** hex writes bytes as digits. */
export const hex = (bytes: Uint8Array) => Array.from(bytes, (b) => b.toString(16).padStart(2, '0')).join('')

/** base64 writes bytes as text, however many there are. */
export function base64(bytes: Uint8Array): string {
  let text = ''
  for (const b of bytes) text += String.fromCharCode(b)
  return btoa(text)
}
