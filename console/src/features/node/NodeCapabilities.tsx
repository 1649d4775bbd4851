import type { Schemas } from '../../api/client'
import { Card, Code, Empty, Facts, Note } from '../../ui/basics'
import { Table, type Column } from '../../ui/table'
import { bytes, speed } from './sizes'
import type { Known } from './queries'

type GPU = Schemas['AgentwireGPU']
type Disk = Schemas['AgentwireDisk']
type NIC = Schemas['AgentwireNIC']

const none = <span className="text-muted">–</span>

const gpuColumns: Column<GPU>[] = [
  { key: 'index', title: 'GPU', width: '4rem', cell: (g) => g.index },
  { key: 'name', title: 'Model', width: 'minmax(12rem, 2fr)', cell: (g) => g.name },
  { key: 'memory', title: 'Memory', align: 'right', cell: (g) => bytes(g.memory_bytes) },
  { key: 'architecture', title: 'Architecture', cell: (g) => g.architecture ?? none },
  { key: 'bus', title: 'PCI', width: 'minmax(9rem, 1fr)', cell: (g) => (g.pci_bus_id ? <Code>{g.pci_bus_id}</Code> : none) },
  { key: 'uuid', title: 'UUID', width: 'minmax(16rem, 2fr)', cell: (g) => <Code>{g.uuid}</Code> },
]

const diskColumns: Column<Disk>[] = [
  { key: 'name', title: 'Disk', cell: (d) => d.name },
  { key: 'model', title: 'Model', width: 'minmax(12rem, 2fr)', cell: (d) => d.model ?? none },
  { key: 'size', title: 'Size', align: 'right', cell: (d) => bytes(d.size_bytes) },
  { key: 'kind', title: 'Kind', cell: (d) => (d.rotational ? 'spinning' : 'solid state') },
]

const nicColumns: Column<NIC>[] = [
  { key: 'name', title: 'Interface', cell: (n) => n.name },
  { key: 'mac', title: 'MAC', width: 'minmax(10rem, 1fr)', cell: (n) => (n.mac ? <Code>{n.mac}</Code> : none) },
  { key: 'speed', title: 'Speed', align: 'right', cell: (n) => (n.speed_mbps ? speed(n.speed_mbps) : none) },
  { key: 'rdma', title: 'RDMA', cell: (n) => (n.rdma ? 'yes' : 'no') },
  { key: 'driver', title: 'Driver', cell: (n) => n.driver ?? none },
]

/** NodeCapabilities is what the agent found on the machine, and what the scheduler goes by. */
export function NodeCapabilities({ node }: { node: Known }) {
  const found = node.inspection
  const facts = Object.entries(node.capabilities).sort(([a], [b]) => (a < b ? -1 : 1))
  if (!found) {
    return <Empty title="Nothing has been reported yet">The agent reports what it finds on the machine when it enrols.</Empty>
  }
  const { gpus, disks, nics } = found
  return (
    <div className="grid items-start gap-4 lg:grid-cols-2">
      {(gpus?.length ?? 0) !== node.gpus_total && (
        <div className="lg:col-span-2">
          <Note tone="warn" title={`The agent found ${gpus?.length ?? 0} GPUs, but ${node.gpus_total} are recorded for this node`}>
            Check the driver and the PCI bus of the machine. If it really has another number, edit the node. Machines of the virtual lab have no GPUs.
          </Note>
        </div>
      )}
      <Card title="Machine">
        <Facts
          of={[
            ['Operating system', found.os],
            ['Kernel', found.kernel],
            ['CPU', found.cpu_model],
            ['CPUs', found.cpus],
            ['NUMA nodes', found.numa_nodes],
            ['Memory', bytes(found.memory_bytes)],
            ['Addresses', found.addresses?.join(', ')],
          ]}
        />
      </Card>
      <Card title="What the scheduler uses">
        {facts.length === 0 ? <p className="text-sm text-muted">No facts were reported.</p> : <Facts of={facts.map(([name, value]) => [name, <Code key={name}>{value}</Code>])} />}
      </Card>
      <Part title={`GPUs (${gpus?.length ?? 0})`}>
        {gpus?.length ? <Table label="GPUs" columns={gpuColumns} rows={gpus} rowKey={(g) => g.uuid} /> : <p className="text-sm text-muted">No GPU was found.</p>}
      </Part>
      <Part title={`Disks (${disks?.length ?? 0})`}>
        {disks?.length ? <Table label="Disks" columns={diskColumns} rows={disks} rowKey={(d) => d.name} /> : <p className="text-sm text-muted">No disk was found.</p>}
      </Part>
      <Part title={`Network interfaces (${nics?.length ?? 0})`}>
        {nics?.length ? <Table label="Network interfaces" columns={nicColumns} rows={nics} rowKey={(n) => n.name} /> : <p className="text-sm text-muted">No interface was found.</p>}
      </Part>
    </div>
  )
}

function Part({ title, children }: { title: string; children: React.ReactNode }) {
  return (
    <section className="flex min-w-0 flex-col gap-2 lg:col-span-2">
      <h2 className="text-sm font-semibold">{title}</h2>
      {children}
    </section>
  )
}
