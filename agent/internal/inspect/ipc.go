package inspect

import (
	"strconv"
	"strings"
)

// IPC is an object of System V inter-process communication. It outlives the
// processes that made it.
type IPC struct {
	Kind string // shm, sem or msg
	ID   int
	UID  int // of the owner
	CUID int // of the creator
}

// Belongs says whether an object belongs to a user.
func (o IPC) Belongs(uid int) bool { return o.UID == uid || o.CUID == uid }

// IPC lists the objects of the machine.
func (m Machine) IPC() []IPC {
	var all []IPC
	for _, kind := range []string{"shm", "sem", "msg"} {
		all = append(all, parseIPC(kind, m.text("/proc/sysvipc/"+kind))...)
	}
	return all
}

var idColumn = map[string]string{"shm": "shmid", "sem": "semid", "msg": "msqid"}

// parseIPC reads one of the tables below /proc/sysvipc. Their columns differ,
// so it finds them by the names in the first line.
func parseIPC(kind, text string) []IPC {
	var objects []IPC
	columns := map[string]int{}
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(columns) == 0 {
			for i, name := range fields {
				columns[name] = i
			}
			continue
		}
		id, okID := column(fields, columns, idColumn[kind])
		uid, okUID := column(fields, columns, "uid")
		cuid, okCUID := column(fields, columns, "cuid")
		if okID && okUID && okCUID {
			objects = append(objects, IPC{Kind: kind, ID: id, UID: uid, CUID: cuid})
		}
	}
	return objects
}

func column(fields []string, columns map[string]int, name string) (int, bool) {
	i, ok := columns[name]
	if !ok || i >= len(fields) {
		return 0, false
	}
	n, err := strconv.ParseUint(fields[i], 10, 32)
	return int(n), err == nil
}
