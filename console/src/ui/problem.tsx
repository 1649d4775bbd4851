import { asRefusal } from '../api/client'
import { Button, Note } from './basics'

/** ProblemNote says what happened, to what, and what to do. */
export function ProblemNote({ error, onRetry }: { error: unknown; onRetry?: () => void }) {
  const { problem } = asRefusal(error)
  return (
    <Note tone="bad" title={problem.detail || problem.title} actions={onRetry && <Button onClick={onRetry}>Try again</Button>}>
      {problem.remedy && <p>{problem.remedy}</p>}
      {(problem.errors ?? []).length > 0 && (
        <ul className="mt-1 list-disc pl-5">
          {problem.errors?.map((e) => (
            <li key={e.field + e.message}>
              <span className="font-mono text-xs">{e.field.replace(/^body\./, '')}</span>: {e.message}
            </li>
          ))}
        </ul>
      )}
      <p className="mt-1 text-xs text-muted">
        {problem.code}
        {problem.correlation_id && <> · correlation id {problem.correlation_id}</>}
      </p>
    </Note>
  )
}
