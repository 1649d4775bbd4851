import { useProject, useTenant } from '../access/reading'

/** ProjectName names a project with its tenant; while it is read, and where it may not be, it is the id. */
export function ProjectName({ id }: { id: string }) {
  const project = useProject(id).data?.body
  return project ? <InTenant orgId={project.org_id} name={project.name} /> : <>{id}</>
}

function InTenant({ orgId, name }: { orgId: string; name: string }) {
  const tenant = useTenant(orgId).data?.body
  return <>{tenant ? `${tenant.name} / ${name}` : name}</>
}
