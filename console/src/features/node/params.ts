/** paramsOf reads the parameters of a task as somebody typed them; nothing typed is no parameters. */
export function paramsOf(text: string): { value?: unknown; error?: string } {
  if (text.trim() === '') return {}
  try {
    const value: unknown = JSON.parse(text)
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return { error: 'Parameters are an object, such as {"scope": "local"}.' }
    return { value }
  } catch (error) {
    return { error: `This is not JSON: ${error instanceof Error ? error.message : String(error)}` }
  }
}

// What somebody who asks for it usually wants; the control plane knows what is allowed.
const samples: Record<string, object> = {
  'node.drain': { reason: '', revoke_users: false },
  'node.uninstall': { keep_logs: true },
  'node.storage_cleanup': { scope: 'local' },
  'node.gpu_scrub': { reset: false },
  'node.self_update': { action: 'rollback' },
}

/** sample is where to begin with the parameters of a type. */
export function sample(type: string): string {
  const s = samples[type]
  return s ? JSON.stringify(s, null, 2) : ''
}
