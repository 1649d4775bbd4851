package cli

import (
	"maps"
	"net/http"
)

const (
	agentReleaseJSON = `{"version":"1.4.0","commit":"0123456789ab","architecture":"amd64","digest":` +
		`"9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08","size":21,"notes":"better",` +
		`"minimum_control_plane":"","protocol_min":1,"protocol_max":1,"key_id":"5f2c9a0d1e3b4a67","added_by":"` + userID +
		`","created_at":"2026-03-04T05:06:07Z","status":"available","because":"","withdrawn_by":"",` +
		`"channels":["candidate"],"nodes":12}`
	agentChannelJSON = `{"channel":"candidate","version":"1.4.0","previous":"1.3.0","reason":"first nodes","changed_by":"` +
		userID + `","changed_at":"2026-03-04T05:06:07Z"}`
	agentFloorJSON = `{"version":"1.2.0","reason":"older ones leak","changed_by":"` + userID +
		`","changed_at":"2026-03-04T05:06:07Z"}`
	agentBlockJSON = `{"version":"1.3.9","reason":"crashes","blocked_by":"` + userID +
		`","blocked_at":"2026-03-04T05:06:07Z"}`
	rolloutPlanJSON = `"plan":{"canaries":3,"wave_percent":25,"parallel":10,"max_unavailable":20,"bake_seconds":600,` +
		`"node_seconds":1800,"go_back":"wave","rented":"leave"}`
	rolloutJSON = `{"rollout_id":"` + checkID + `","version":"1.4.0","status":"paused","target":{"channel":"stable"},` +
		rolloutPlanJSON + `,"waves":5,"wave":0,"paused_code":"too_many_failures",` +
		`"paused_because":"1 nodes failed in wave 0; the last one was c07u31: its agent did not report before the deadline",` +
		`"counts":[{"wave":-1,"outcome":"excluded","nodes":2},{"wave":0,"outcome":"failed","nodes":1},` +
		`{"wave":1,"outcome":"pending","nodes":7}],"reason":"less memory","requested_by":"` + userID +
		`","created_at":"2026-03-04T05:06:07Z","updated_at":"2026-03-04T05:06:07Z"}`
	rolloutNodeJSON = `{"node_id":"` + nodeID + `","hostname":"c07u31","wave":0,"outcome":"failed",` +
		`"detail":"its agent did not report before the deadline","from_version":"1.3.0"}`
	agentUploadJSON = `{"upload_id":"` + overrideID + `","size":21,"received":`
)

var agentErrands = []errand{
	{"agent-release-upload", "agent release upload testdata/agent/gpuaas-agent-1.4.0-amd64.json"},
	{"agent-release-list", "agent release list"},
	{"agent-release-show", "agent release show 1.4.0"},
	{"agent-release-promote", "agent release promote 1.4.0 candidate --reason first"},
	{"agent-release-promote-unexplained", "agent release promote 1.4.0 candidate"},
	{"agent-release-withdraw", "agent release withdraw 1.4.0 --reason leaks"},
	{"agent-release-block", "agent release block 1.3.9 --reason crashes"},
	{"agent-release-unblock", "agent release unblock 1.3.9 --reason mended"},
	{"agent-release-floor", "agent release floor 1.2.0 --reason leaks"},
	{"agent-release-refused", "agent release refused"},
	{"agent-channels", "agent channels"},
	{"agent-versions", "agent versions"},
	{"agent-rollout-preview", "agent rollout preview 1.4.0 --channel stable --site dc1 --label fabric=ib0 --reason try"},
	{"agent-rollout-preview-json", "agent rollout preview 1.4.0 --reason try -o json"},
	{"agent-rollout-start", "agent rollout start 1.4.0 --canaries 3 --bake 600 --go-back all --approve --reason try"},
	{"agent-rollout-start-unexplained", "agent rollout start 1.4.0"},
	{"agent-rollout-list", "agent rollout list"},
	{"agent-rollout-show", "agent rollout show " + checkID},
	{"agent-rollout-nodes", "agent rollout nodes " + checkID + " --outcome failed"},
	{"agent-rollout-pause", "agent rollout pause " + checkID + " --reason look"},
	{"agent-rollout-resume", "agent rollout resume " + checkID + " --reason mended"},
	{"agent-rollout-approve", "agent rollout approve " + checkID + " --reason fine"},
	{"agent-rollout-abort", "agent rollout abort " + checkID + " --back --reason bad"},
}

// agentAnswers are what the fake API says about releases of the agent.
func agentAnswers(into map[string]http.HandlerFunc) map[string]http.HandlerFunc {
	maps.Copy(into, map[string]http.HandlerFunc{
		"begin-agent-release-upload":    answer(201, agentUploadJSON+`0,"max_part":524288}`),
		"send-agent-release-part":       answer(200, agentUploadJSON+`21,"max_part":524288}`),
		"complete-agent-release-upload": answer(201, agentReleaseJSON),
		"list-agent-releases":           pageOf(agentReleaseJSON), "get-agent-release": answer(200, agentReleaseJSON),
		"promote-agent-release":  answer(200, agentChannelJSON),
		"withdraw-agent-release": answer(200, agentReleaseJSON), "block-agent-version": answer(200, agentBlockJSON),
		"unblock-agent-version": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) },
		"set-agent-floor":       answer(200, agentFloorJSON),
		"get-refused-agent-versions": answer(200, `{"floor":`+agentFloorJSON+`,"blocked":[`+
			agentBlockJSON+`]}`),
		"list-agent-channels": pageOf(agentChannelJSON),
		"get-fleet-agents": answer(200, `{"as_of":"2026-03-04T05:06:07Z","total":3,"items":[`+
			`{"version":"1.4.0","channel":"stable","badge":"current","nodes":2},`+
			`{"version":"dev","channel":"unassigned","badge":"unknown_build","nodes":1}]}`),
		"preview-agent-rollout": answer(200, `{"waves":5,"total":2,`+rolloutPlanJSON+`,"nodes":[`+rolloutNodeJSON+
			`,{"node_id":"`+nodeID+`","hostname":"c07u32","wave":-1,"outcome":"excluded","detail":"somebody rents it",`+
			`"from_version":""}]}`),
		"begin-agent-rollout": answer(201, rolloutJSON), "list-agent-rollouts": pageOf(rolloutJSON),
		"get-agent-rollout": answer(200, rolloutJSON), "list-agent-rollout-nodes": pageOf(rolloutNodeJSON),
		"pause-agent-rollout": answer(200, rolloutJSON), "resume-agent-rollout": answer(200, rolloutJSON),
		"approve-agent-rollout": answer(200, rolloutJSON), "abort-agent-rollout": answer(200, rolloutJSON),
	})
	return into
}
