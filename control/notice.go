// SPDX-License-Identifier: Apache-2.0

package control

// Notices, the Event of a Notice.
const (
	NoticeUp      = "link_up"         // Link, Filters
	NoticeDown    = "link_down"       // Link, Err
	NoticeTry     = "link_try"        // Link, Err: a try to connect went wrong
	NoticeReplay  = "replay_ignored"  // Topic
	NoticeDropped = "message_dropped" // Link, Topic: the device is behind
	NoticeIgnored = "message_ignored" // Link, Topic: it is empty, or none of ours
	NoticePanic   = "panic"           // Client, ID, Incident, Panic, Stack
	NoticeState   = "state_error"
	NoticeRival   = "name_taken"   // Err: another box has the device's name
	NoticeDenied  = "group_denied" // Link, Topic: the broker lets no requests of this group through
)

// Notices of single requests and commands.
const (
	NoticeRefused    = "refused"     // Client, ID, Seen, Err, which may quote the request
	NoticeAccepted   = "accepted"    // Client, ID, Seen.Op, Ahead
	NoticeStarted    = "started"     // and Seen.Queue
	NoticeFirst      = "first_token" // and Seen.TTFT, whose first pieces may be shown later
	NoticeEnded      = "ended"       // and the rest of Seen
	NoticeJobRefused = "job_refused" // Client, ID, Err
)

// Notice is something worth a log record. It holds no prompt and no answer, but where
// Err and Panic may quote one.
type Notice struct {
	Event   string
	Link    string
	Topic   string
	Filters []string // subscribed to
	Client  string
	ID      string
	Ahead   int // requests before this one
	Seen    Observation
	Err     error

	Incident string
	Panic    any
	Stack    []byte
}
