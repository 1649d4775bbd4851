import { Badge, Code } from '../../ui/basics'
import { impactTone, impactWords, type Definition } from './definition'

/** StepList is the steps of an operation in their order, with what each does to a node. */
export function StepList({ steps }: { steps: Definition['steps'] }) {
  return (
    <ol className="flex flex-col divide-y divide-line">
      {steps.map((s, i) => (
        <li key={s.id} className="flex flex-wrap items-center gap-2 py-2 text-sm">
          <span className="w-5 text-right text-muted tabular-nums">{i + 1}</span>
          <span className="font-medium">{s.title ?? s.id}</span>
          <Code>{s.kind}</Code>
          <Badge tone={impactTone[s.impact]}>{impactWords[s.impact]}</Badge>
        </li>
      ))}
    </ol>
  )
}
