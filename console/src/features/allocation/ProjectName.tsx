import { useProjectName } from './nameOfProject'

/** ProjectName names a project with its tenant; while it is read, and where it may not be, it is the id. */
export function ProjectName({ id }: { id: string }) {
  return <>{useProjectName(id) ?? id}</>
}
