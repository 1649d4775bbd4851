package happening

import "gpuaas/sim/maas/fault"

var all = []Happening{
	{
		What: "release", Befalls: "release", Said: "%[1]s is being released", Label: "Release behind the owner's back",
		Explanation: "Somebody releases the machine in MAAS, and what is installed on it is given up.",
	},
	{
		What: "redeploy", Befalls: "redeploy", Said: "something else is being installed on %[1]s",
		Label:       "Install something else",
		Explanation: "Somebody installs the default image over the machine; its agent is gone.",
	},
	{
		What: "delete", Befalls: "delete", Said: "%[1]s is deleted from MAAS", Label: "Delete from MAAS",
		Explanation: "Somebody deletes the machine from MAAS. It goes on running.",
	},
	{
		What: "recreate", Befalls: "recreate", Said: "%[1]s has another system id now", Label: "Delete and add again",
		Explanation: "Somebody deletes the machine from MAAS and adds it again: the same server under another system id.",
	},
	{
		What: "disown", Befalls: "disown", Said: "%[1]s has no owner any more", Label: "Take its owner away",
		Explanation: "The machine stays as it is in MAAS, but belongs to nobody.",
	},
	{
		What: "power-on", Befalls: "power_on", Said: "%[1]s is switched on", Label: "Switch on at its button",
		Explanation: "Somebody presses the button of the machine; MAAS asked for nothing.",
	},
	{
		What: "power-off", Befalls: "power_off", Said: "%[1]s is switched off", Label: "Switch off at its button",
		Explanation: "Somebody presses the button of the machine, and it stops at once.",
	},
	{
		What: "change-ip", Befalls: "change_ip", Said: "%[1]s has other addresses now", Label: "Change its addresses",
		Explanation: "Somebody gives the machine other addresses in MAAS.",
	},
	{
		What: "hardware", Befalls: "fail", ill: true, Said: "%[1]s is Failed testing now", Label: "A hardware test fails",
		Explanation: "Somebody tests the machine, and it does not pass: MAAS calls it Failed testing. Healing accepts it " +
			"as it is.",
	},
	{
		What: "broken", Befalls: "break", ill: true, Said: "%[1]s is Broken now", Label: "Mark it broken",
		Explanation: "Somebody marks the machine broken, upon which MAAS releases it. Healing marks it fixed; what was " +
			"installed does not come back.",
	},
	{
		What: "commissioning", Lasts: true, Rule: fault.Rule{Fault: fault.FailCommissioning}, Label: "Commissioning fails",
		Explanation: "The scripts by which MAAS gets to know the machine fail.",
	},
	{
		What: "testing", Lasts: true, Rule: fault.Rule{Fault: fault.FailTesting}, Label: "Tests fail",
		Explanation: "The hardware tests after commissioning fail.",
	},
	{
		What: "deploy", Lasts: true, Rule: fault.Rule{Fault: fault.FailDeploy}, Label: "Installation fails",
		Explanation: "The image does not get onto the machine.",
	},
	{
		What: "datasource", Lasts: true, Rule: fault.Rule{Fault: fault.Datasource}, Label: "First boot stalls",
		Explanation: "The installed system never reaches its data source, so that it is never set up.",
	},
	{
		What: "token", Lasts: true, Rule: fault.Rule{Fault: fault.NoToken}, Label: "Metadata token is missing",
		Explanation: "MAAS makes no metadata token when the machine boots from the network.",
	},
	{
		What: "sync", Lasts: true, Rule: fault.Rule{Fault: fault.NoSync}, Label: "Hardware sync stops",
		Explanation: "The machine does not report its hardware to MAAS any more.",
	},
	{
		What: "bmc", Lasts: true, Rule: fault.Rule{Fault: fault.BMCFailure}, Label: "BMC does not answer",
		Explanation: "MAAS can neither ask for the machine's power nor switch it.",
	},
	{
		What: "erase", Lasts: true, Rule: fault.Rule{Fault: fault.FailErase}, Label: "Erasing fails",
		Explanation: "The disks are not erased when the machine is released.",
	},
	{
		What: "erase-hangs", Lasts: true, Rule: fault.Rule{Fault: fault.HangErase}, Label: "Erasing never ends",
		Explanation: "Erasing the disks begins and does not come to an end.",
	},
	{
		What: "release-fails", Lasts: true, Rule: fault.Rule{Fault: fault.StuckOff}, Label: "Releasing sticks",
		Explanation: "The machine does not switch off when it is released.",
	},
	{
		What: "release-ignored", Lasts: true, Rule: fault.Rule{Fault: fault.Ignored, Operation: "machine.release"},
		Label:       "Releasing is ignored",
		Explanation: "MAAS says that it releases the machine and does nothing.",
	},
	{
		What: "power-off-fails", Lasts: true, Rule: fault.Rule{Fault: fault.Ignored, Operation: "machine.power_off"},
		Label:       "Switching off is ignored",
		Explanation: "MAAS says that it switches the machine off and does nothing.",
	},
}
