import { useMe } from '../../app/session'

/** Who is the principal that asked for something: by name when it is oneself. */
export function Who({ id }: { id: string }) {
  const me = useMe()
  return id === me.id ? <span title={id}>{me.name || me.id} (you)</span> : <>{id}</>
}
