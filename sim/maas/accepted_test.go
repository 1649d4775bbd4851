package maas_test

const (
	randomRack = "the recorded rack was made by MAAS's test factory: random interfaces, an IPv6 subnet, no version"
	ownScript  = "the ephemeral image's own script is MAAS's; the simulator hands out a stand-in"
	putBack    = "the script of the recording put the machine back to Ready in the database, past a release, so the " +
		"annotations survived"
	lagsOnce = "06-05 and 06-07 show the boot disk as it was before the request, this one as it is after; the " +
		"simulator does the former"
	noRackLookup = "the recorded region had no rack address to render vendor data with and failed; the simulator has one"
)

// acceptedDifferences are where the simulator answers differently from the
// recording on purpose.
var acceptedDifferences = []accepted{
	{"01-42", "[].interface_set", randomRack},
	{"01-42", "[].version", randomRack},
	{"02-46", "body", ownScript},
	{"03-16", "[].", randomRack},
	{"03-16", " length", "the recorded region had two subnets more, which nothing later uses"},
	{
		"03-39", "[].vlans[].primary_rack",
		"the order of fabrics follows their ids here; the recording lists the one without a rack first",
	},
	{"05-05", "", noRackLookup},
	{"06-09", "workload_annotations", putBack},
	{"06-09", "owner_data", putBack},
	{"06-1*", "workload_annotations", putBack},
	{"06-1*", "owner_data", putBack},
	{"06-43", "body", ownScript},
	{"08-10", "events length", "the simulator logs the end of commissioning, not of each of its scripts"},
	{"08-48", "boot_disk.partitions[].filesystem", lagsOnce},
	{"08-49", "boot_disk.partitions[].filesystem", lagsOnce},
}
