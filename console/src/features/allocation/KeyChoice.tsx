import { Loading, TextLink } from '../../ui/basics'
import { CheckField } from '../../ui/form'
import { ProblemNote } from '../../ui/problem'
import { useKeys } from './keys'

type Props = { projectId: string; /** Undefined: all of them, also those that are there when it is placed. */ chosen?: string[]; onChange: (keys: string[] | undefined) => void; wrong?: string }

/** KeyChoice chooses the SSH keys that open what is rented, among one's own and those of the project. */
export function KeyChoice({ projectId, chosen, onChange, wrong }: Props) {
  const { keys, error, loading } = useKeys(projectId)
  if (loading) return <Loading what="SSH keys" />
  if (error) return <ProblemNote error={error} />
  if (keys.length === 0) {
    return (
      <p className="text-xs text-muted">
        Neither you nor the project has an SSH key: <TextLink to="/ssh-keys">add one</TextLink>, or use the terminal in the browser, which needs none.
      </p>
    )
  }
  return (
    <fieldset className="flex flex-col gap-2">
      <legend className="mb-1 text-sm font-medium">SSH keys that open it</legend>
      <CheckField label="All of yours and of the project" value={chosen === undefined} onChange={(on) => onChange(on ? undefined : keys.map((k) => k.id))} />
      {chosen && (
        <div className="flex max-h-48 flex-col gap-1 overflow-auto rounded-md border border-line p-2">
          {keys.map((k) => (
            <CheckField key={k.id} label={`${k.name} (${k.whose})`} value={chosen.includes(k.id)} onChange={(on) => onChange(on ? [...chosen, k.id] : chosen.filter((id) => id !== k.id))} />
          ))}
        </div>
      )}
      {wrong && (
        <p role="alert" className="text-xs text-bad">
          {wrong}
        </p>
      )}
    </fieldset>
  )
}
